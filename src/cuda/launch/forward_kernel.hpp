// A forward kernel as the host sees it: what it computes, its address, its launch.
//
// Each family has one table of them; the backend tries families in the order of backend.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/geometry.hpp"
#include "plan/choose.hpp"

namespace tilefold::cuda {

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
};

/// Fastest first. Every family's tables.
std::span<const ForwardKernel> any_kernels();
std::span<const ForwardKernel> sm80_kernels();

}  // namespace tilefold::cuda
