// What a schedule will touch, counted from the mask alone.
#pragma once

#include <string>
#include <vector>

#include "plan/schedule.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::planner {

struct Work {
  TileCounts tiles;
  std::int64_t pairs = 0;  // (query, key) pairs in the tiles that are touched
};

/// Walks every tile of rows once; hidden stretches cost one question each.
Work count_work(const core::Geometry& geometry, const Schedule& schedule,
                const score::MaskNode* mask);

/// A term of a mask that cannot decide tiles whose elements agree.
struct BluntTerm {
  std::string text;
  int rectangles = 0;  // of those looked at
};
struct Bluntness {
  std::vector<BluntTerm> terms;  // the most frequent first
  int rectangles = 0;            // that were looked at
};
/// Looks at 64 x 64 corners of partial tiles, as many as say enough: element by element.
Bluntness blunt_terms(const core::Geometry& geometry, const Schedule& schedule,
                      const score::MaskNode* mask);

}  // namespace tilefold::planner
