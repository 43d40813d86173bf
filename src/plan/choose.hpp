// Which kernel computes a problem: every candidate is asked, every refusal keeps its reason.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

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
  /// Kernels of one design: "sm80". Refusals of a family that say the same are told once.
  const char* family = "";
  /// How often a score passes through the cache: written once, read twice; 0 where scores stay in
  /// registers.
  int score_passes = 3;
};

/// Why a candidate cannot compute a problem, in one sentence; nothing where it can.
std::optional<std::string> refusal(const Candidate& candidate, const core::Geometry& geometry,
                                   const Problem& problem);

/// One reason and who gives it: "sm80 (28 kernels)", or a kernel's name where it is alone.
struct GroupedRefusal {
  std::string who, reason;
};
struct KernelRefusal {
  const Candidate* kernel;
  std::string reason;
};
/// Kernels of a family with the same reason as one entry, in the order of their first.
std::vector<GroupedRefusal> grouped(std::span<const KernelRefusal> refusals);

/// The first candidate that can: candidates stand fastest first. Throws Error(unsupported) with
/// every reason where none can.
int choose(std::span<const Candidate> candidates, const core::Geometry& geometry,
           const Problem& problem);

}  // namespace tilefold::planner
