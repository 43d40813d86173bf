// A forward kernel as the host sees it: what it computes, its address, its launch.
//
// Each family has one table of them; the backend tries families in the order of backend.cpp.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/geometry.hpp"
#include "cuda/jit/forward_layout.hpp"
#include "cuda/kernels/forward_params.cuh"
#include "plan/choose.hpp"

namespace tilefold::cuda {

struct ForwardKernel;
struct CompiledForward;
struct RunTimeKernel;

/// A prepared plan, as a family that launches its kernels itself is told of it.
struct LaunchPlan {
  const ForwardParams& params;  // of every run, but for pointers to tensors and workspace
  const core::Geometry& geometry;
  const Problem& problem;
  const void* device_memory;  // any, aligned to 128: stands for tensors that runs will bring
  int multiprocessors;
  int shared_bytes;
  std::span<const unsigned char> formula;  // of a compiled kernel, or FormulaPrograms
  const int* first_keys;                   // on the device, likewise; null: not known
  bool rising;                             // later row tiles see more
};

/// The launches of one plan by such a family, with all that is the same in every run. No run
/// changes it.
class FamilyLaunch {
 public:
  virtual ~FamilyLaunch() = default;
  /// `params`: of this run. `counters`: ForwardKernel::counters zeros in the workspace.
  virtual void enqueue(const ForwardParams& params, unsigned* counters, void* stream) const = 0;
};

/// How a kernel takes masks and score changes.
enum class FormulaReading {
  described,   ///< as ForwardParams describes them
  interpreted  ///< those built at run time too, as instructions (interpreted.hpp)
};

struct ForwardKernel {
  planner::Candidate candidate;  // tile.tile_queries == tile.block_queries: packed rows of a block
  const void* function;          // __global__ void(ForwardParams)
  int threads;
  /// Dynamic shared memory for these head dimensions.
  int (*shared_bytes)(int head_dim, int value_dim);
  /// Why this kernel cannot compute a problem that the mask, the score changes and the dtypes
  /// allow.
  std::optional<std::string> (*refusal)(const ForwardKernel& kernel, const core::Geometry& geometry,
                                        const Problem& problem);
  int index = 0;              // the family's own number of it
  int pointer_alignment = 1;  // bytes that query, key and value must start on, in every run

  // Where one launch of a block an item is not what a kernel wants. Null: it is.

  /// Query heads that a list of rows holds (plan/schedule.hpp); null: all that share a KV head.
  int (*packed_heads)(const ForwardKernel& kernel, const core::Geometry& geometry) = nullptr;
  /// The order of a work list; null: as the schedule numbers it.
  void (*order)(std::vector<ForwardWork>& work, const core::Geometry& geometry,
                const ForwardParams& params) = nullptr;
  std::unique_ptr<const FamilyLaunch> (*family_launch)(const ForwardKernel& kernel,
                                                       const LaunchPlan& plan) = nullptr;
  int counters = 0;                           // of 4 bytes, zero before and after a run
  int blocks_a_multiprocessor = 2;            // at work at once
  const CompiledForward* compiled = nullptr;  // for a formula's type; index is not used
  /// Compiled by plan() for the problem's formula (run_time.hpp): `function` is null here.
  const jit::ForwardShape* at_run_time = nullptr;
  /// Whether a problem asks for no more than a plain kernel does, sm90::ForwardConfig; null: never.
  bool (*is_plain)(const ForwardKernel& kernel, const core::Geometry& geometry,
                   const planner::Schedule& schedule, const Problem& problem) = nullptr;
  FormulaReading reading = FormulaReading::described;
  double packed_cycles = 0;  // more an item whose rows hold several heads
  /// What it costs where that depends on the problem's head dimensions; null: candidate.cost.
  planner::KernelCost (*cost)(const ForwardKernel& kernel,
                              const core::Geometry& geometry) = nullptr;
};

/// Fastest first. Every family's tables.
std::span<const ForwardKernel> sm90_kernels();
std::span<const ForwardKernel> any_kernels();
std::span<const ForwardKernel> sm80_kernels();
/// For formulas of a program's own (tilefold/cuda/instantiate.cuh).
std::span<const ForwardKernel> compiled_kernels();
/// For formulas that come as text.
std::span<const ForwardKernel> sm90_run_time_kernels();
std::span<const ForwardKernel> sm80_run_time_kernels();

/// The kernel of a row that is compiled at run time, for the problem's formula. Throws
/// Error(invalid_argument) where it does not compile.
std::shared_ptr<const RunTimeKernel> compile_formula(const ForwardKernel& kernel,
                                                     const core::Geometry& geometry,
                                                     const planner::Schedule& schedule,
                                                     const Problem& problem);

}  // namespace tilefold::cuda
