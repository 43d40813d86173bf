// A forward kernel as the host sees it: what it computes, its address, its launch.
//
// Each family has one table of them; the backend tries families in the order of backend.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/geometry.hpp"
#include "cuda/kernels/forward_params.cuh"
#include "plan/choose.hpp"

namespace tilefold::cuda {

struct ForwardKernel;
struct ForwardLaunch;

/// One run, as a family that launches its kernels itself is told of it.
struct LaunchSite {
  const ForwardLaunch& launch;
  const core::Geometry& geometry;
  const Tensors& tensors;
  const Options& options;
  unsigned* counters;  // ForwardKernel::counters zeros in the workspace
  int multiprocessors;
  int shared_bytes;
  void* stream;
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
  void (*enqueue)(const ForwardKernel& kernel, const LaunchSite& site) = nullptr;
  int counters = 0;                 // of 4 bytes, zero before and after a run
  int blocks_a_multiprocessor = 2;  // at work at once
  /// What it costs where that depends on the problem's head dimensions; null: candidate.cost.
  planner::KernelCost (*cost)(const ForwardKernel& kernel,
                              const core::Geometry& geometry) = nullptr;
};

/// Fastest first. Every family's tables.
std::span<const ForwardKernel> sm90_kernels();
std::span<const ForwardKernel> any_kernels();
std::span<const ForwardKernel> sm80_kernels();

}  // namespace tilefold::cuda
