// What a schedule will touch, counted from the mask alone.
#pragma once

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

}  // namespace tilefold::planner
