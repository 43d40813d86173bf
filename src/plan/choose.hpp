// Which kernel computes a problem: every candidate is asked, every refusal keeps its reason.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/geometry.hpp"
#include "plan/schedule.hpp"

namespace tilefold::planner {

/// A kernel as the planner sees it. Rates are of one core, measured or derived as docs/kernels
/// says.
struct Candidate {
  const char* name;
  Backend backend;
  DType compute;  // element type of its dot products
  TileShape tile;
  const char* instructions;
  double flops_per_cycle;         // of its dot products, at best
  double exponentials_per_cycle;  // of its softmax pass
  double cache_bytes_per_cycle;   // first-level cache to registers
  int reuse;  // multiply-adds that one element brought to registers takes part in
  /// What only its backend knows to refuse; null: nothing.
  std::optional<std::string> (*limits)(const Candidate& candidate, const core::Geometry& geometry,
                                       const Problem& problem) = nullptr;
};

/// Why a candidate cannot compute a problem, in one sentence; nothing where it can.
std::optional<std::string> refusal(const Candidate& candidate, const core::Geometry& geometry,
                                   const Problem& problem);

/// The first candidate that can: candidates stand fastest first. Throws Error(unsupported) with
/// every reason where none can.
int choose(std::span<const Candidate> candidates, const core::Geometry& geometry,
           const Problem& problem);

}  // namespace tilefold::planner
