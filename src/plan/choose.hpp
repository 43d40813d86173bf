// Which kernel computes a problem: every candidate is asked, every refusal keeps its reason.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/geometry.hpp"
#include "plan/cost.hpp"
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
  KernelCost cost{};
  /// Its time for a problem that it does not refuse; null: nothing is known of it.
  Prediction (*predict)(const Candidate& candidate, const core::Geometry& geometry,
                        const Problem& problem) = nullptr;
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

/// A kernel that can, and its predicted time where something is known of it.
struct Contender {
  int kernel;  // among the candidates
  std::optional<Prediction> prediction;
};
/// Of each family the first that can, in the order of the candidates: a family lists its tiles by
/// the head dimensions that they hold, the smallest first, and that order is measured.
std::vector<Contender> contenders(std::span<const Candidate> candidates,
                                  const core::Geometry& geometry, const Problem& problem);

/// Whether the order of the candidates alone decides: a batch-invariant kernel may follow from
/// dtypes, head dimensions and formula, and not from how many rows and keys there are.
bool order_decides(const Problem& problem);

/// The contender of the least predicted time; of equal ones the earlier. One of which nothing is
/// known keeps its place before all that follow it. Contenders must not be empty.
const Contender& fastest(std::span<const Contender> contenders);

/// The kernel that computes the problem: fastest() of the contenders, or the first where the order
/// decides. Throws Error(unsupported) with every reason where none can.
int choose(std::span<const Candidate> candidates, const core::Geometry& geometry,
           const Problem& problem);

}  // namespace tilefold::planner
