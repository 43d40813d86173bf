// A plan in words and as JSON: what was chosen, what was not and why, and which roof binds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/choose.hpp"
#include "plan/count.hpp"

namespace tilefold::planner {

struct RejectedKernel {
  std::string name, reason;
};

/// Time in cycles of one core that each resource would need if it were the only one.
struct Roofs {
  double memory, multiply, exponential, cache;
  /// "memory", "multiply", "exponential" or "cache": the largest.
  const char* binding() const;
};

struct Explanation {
  std::string kernel, instructions, problem, mask, score, layout;
  std::vector<RejectedKernel> rejected;
  TileShape tile;
  int split_keys = 0;
  std::int64_t items = 0;
  int threads = 1;
  Work work;
  double flops = 0, bytes = 0;
  Roofs roofs{};
  std::size_t workspace_bytes = 0;
};

/// Everything that explain() tells, as data. Counts tiles: milliseconds for long sequences.
Explanation explain(std::span<const Candidate> candidates, int chosen,
                    const core::Geometry& geometry, const Problem& problem,
                    const Schedule& schedule);

std::string to_text(const Explanation& explanation);
std::string to_json(const Explanation& explanation);

}  // namespace tilefold::planner
