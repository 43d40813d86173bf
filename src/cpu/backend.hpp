// The CPU backend's door: runs a schedule.
#pragma once

#include "core/geometry.hpp"
#include "plan/choose.hpp"
#include "plan/schedule.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::cpu {

/// Kernels this machine can run, fastest first; kernel_index below counts in this list. (A row's
/// block_queries is the most rows that share a prepared key tile.)
std::span<const planner::Candidate> kernels();

/// Bytes that a run with `threads` threads needs; parts of split rows included.
std::size_t workspace_bytes(const core::Geometry& geometry, const planner::Schedule& schedule,
                            int kernel_index, int threads);

struct Execution {
  const core::Geometry& geometry;
  const planner::Schedule& schedule;
  const Options& options;
  int kernel_index;
  int threads;
};
/// Computes out and lse. Allocates nothing; workspace is 64-byte aligned and workspace_bytes()
/// long. `visited`, where given, gains the counts of tiles that were loaded and of those that were
/// not.
void run(const Execution& execution, const Tensors& tensors, void* workspace, TileCounts* visited);

}  // namespace tilefold::cpu
