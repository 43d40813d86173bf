// The CUDA backend's door: which kernels there are, and runs of a schedule on the caller's stream.
// No toolkit header; where CUDA is not built, backend_absent.cpp stands behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/geometry.hpp"
#include "core/planned_tensors.hpp"
#include "plan/choose.hpp"
#include "plan/schedule.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::cuda {

/// Kernels of this build, fastest first; kernel_index below counts in this list. Whether a device
/// is there to run them is a kernel's refusal, not its absence. Empty where CUDA is not built.
std::span<const planner::Candidate> kernels();

/// "NVIDIA H200, compute capability 9.0, 132 multiprocessors" for each device; or one line that
/// says why there is none.
struct Presence {
  std::vector<std::string> devices;
  std::string absence;
};
Presence presence();

/// The card that plans are made for. Where a machine has no CUDA device, plans are
/// made for an H200 and say so.
struct Card {
  std::string name;
  bool here = true;  // false: assumed
  planner::CardFigures figures;
};
Card card(Device device);

/// Throws Error(unsupported) where the device is not there, with the reason. plan() needs none,
/// prepare() and run() do.
void require_device(Device device);

/// The schedule for a kernel. Lengths on the device: sized by the capacities.
planner::Schedule make_schedule(const core::Geometry& geometry, int kernel_index,
                                const Problem& problem);

/// A kernel that was compiled for one problem's formula.
struct RunTimeKernel;
/// Compiles it, or finds it compiled; null where the kernel of this index needs no compilation.
/// Throws Error(invalid_argument), with the formula's errors, where it does not compile. Needs no
/// device.
std::shared_ptr<const RunTimeKernel> compile_formula(int kernel_index,
                                                     const core::Geometry& geometry,
                                                     const planner::Schedule& schedule,
                                                     const Problem& problem);
/// "sm90 forward compiled at run time by NVRTC 13.0, 1.2 s"; from the cache; or what else explain()
/// tells of it.
std::string origin_of(const RunTimeKernel& kernel);
/// Whether the kernel of this index interprets formulas, and what explain() tells of it.
bool interprets(int kernel_index);
std::string interpretation_of(const Problem& problem);

struct Execution {
  const core::Geometry& geometry;
  const planner::Schedule& schedule;
  const Problem& problem;
  int kernel_index;
  const RunTimeKernel* run_time = nullptr;  // of compile_formula(); outlives what is prepared
};

/// Bytes of device memory that one run needs: parts of split rows, lengths read on the device.
std::size_t workspace_bytes(const Execution& execution);

/// What a plan keeps on its device: lengths, work list, page ids and formula tables, status word.
class Prepared {
 public:
  virtual ~Prepared() = default;
  virtual void* workspace() const = 0;  // null until allocate_workspace()
  virtual void allocate_workspace(std::size_t bytes) = 0;
  virtual std::uint32_t status() const = 0;
  /// Whether the formula's scalars and side tensors are those that the device has.
  virtual bool has_formula_of(const Problem& problem) const = 0;
  /// Brings them there in the stream's order. Not while the stream is captured.
  virtual void renew_formula(const Execution& execution, void* stream) = 0;
};

/// Uploads, loads kernels, sets their attributes. Synchronises; not while a stream is captured.
std::shared_ptr<Prepared> prepare(const Execution& execution);

/// Bytes that query, key and value must start on for a kernel: a power of two.
std::size_t input_alignment(int kernel_index);

/// Throws Error(misaligned) for a pointer that the plan's kernel cannot read from, naming the
/// argument: a plan made without pointers, or with others, learns of it here. Needs no device.
void check_alignment(const Execution& execution, const Tensors& tensors);

/// Throws Error(device_mismatch) for a pointer that the device cannot read, naming the argument. Of
/// tensors with the plan's description.
void check_pointers(const core::PlannedTensors& planned, const core::TensorPointers& given);

/// Copies device memory to the host in the stream's order and waits for it.
void read_back(void* to, const void* from, std::size_t bytes, void* stream);

/// True while the stream is being captured into a graph.
bool is_capturing(void* stream);

/// Enqueues a run on `stream` (a cudaStream_t; null is the default stream). Allocates nothing and
/// waits for nothing, save under TILEFOLD_CHECK=1.
void run(const Execution& execution, const Prepared& prepared, const Tensors& tensors,
         void* workspace, void* stream);

}  // namespace tilefold::cuda
