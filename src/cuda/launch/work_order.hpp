// How work is cut and in which order a persistent grid takes it: the longest first, and neighbours
// in time share keys. Plain host arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "core/geometry.hpp"
#include "cuda/kernels/forward_params.cuh"
#include "cuda/kernels/sm90/forward/order.hpp"
#include "plan/schedule.hpp"
#include "tilefold/formula.hpp"

namespace tilefold::cuda {

/// What the number of parts of a row depends on.
struct SplitQuestion {
  std::int64_t items;  // row tiles of the whole problem
  int keys, tile_keys;
  int slots;  // blocks at work at once
};
/// Keys of a part, a multiple of the tile; 0: rows are not split. Blocks work in waves of `slots`
/// and a wave takes as long as one part: its tiles and about 2 more, and the merge 2 more. Example:
/// 8 KV heads of one decode row over 131072 keys are 8 items of 1024 tiles of 128 keys for 132
/// slots: whole rows take 1026, 16 parts of 64 tiles are one wave and take 68.
int choose_split(const SplitQuestion& question);

/// Whether the range mask gives later rows more keys, none fewer.
bool rises(const RangeMask& range);
/// The same of any mask, asked tile by tile of the first sequence and head.
bool rises(const core::Geometry& geometry, const planner::TileShape& tile,
           const score::MaskNode* mask);

/// Order of a grid without a work list: sections where later rows have more keys, `rising`.
sm90::WorkOrder sm90_order(const core::Geometry& geometry, const ForwardParams& params,
                           bool rising);

/// Sorts a work list: sections of (sequence, list) whose keys fit the L2 together, the longest
/// sequences first; in a section the longest items first; the shortest quarter of all items at the
/// end, to even it out.
void longest_first(std::vector<ForwardWork>& work, const core::Geometry& geometry,
                   const ForwardParams& params);

}  // namespace tilefold::cuda
