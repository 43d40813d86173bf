// The forward kernels of this family that are built, as one table of values. Instances, launch
// table, tests and budgets are made from it: a row is added here and nowhere else.
//
// How each shape was chosen: docs/kernels/sm80.md.
#pragma once

#include "cuda/kernels/sm80/config.hpp"

namespace tilefold::cuda::sm80 {

/// The tile of one pair of head dimensions, for one formula.
struct TileChoice {
  int head_dim, value_dim;
  int warps, row_blocks, tile_keys, stages;
  QueryHome query;
  int blocks_per_sm;
  Share share = Share::rows;
};

// Smallest first: a problem takes the first that holds its dimensions and fits its card. Tiles of
// 64, 128 and 256 are the fastest of those that docs/kernels/sm80.md measured on an H200; the
// second of 256 is for cards of 99 KB of shared memory a block.
inline constexpr TileChoice plain_tiles[] = {
    {32, 32, 4, 2, 64, 3, QueryHome::registers, 3},
    {64, 64, 4, 2, 128, 2, QueryHome::shared, 2},
    {96, 96, 4, 2, 64, 2, QueryHome::shared, 2},
    {128, 128, 4, 2, 64, 2, QueryHome::shared, 2},
    {192, 128, 4, 2, 32, 2, QueryHome::shared, 2},
    {192, 192, 4, 1, 64, 1, QueryHome::shared, 2},
    {256, 256, 4, 1, 64, 1, QueryHome::shared, 2, Share::columns},
    {256, 256, 4, 1, 64, 1, QueryHome::shared, 2},
};
// The same dimensions; formulas take registers, so tiles are smaller.
inline constexpr TileChoice changed_tiles[] = {
    {32, 32, 4, 2, 64, 2, QueryHome::registers, 2}, {64, 64, 4, 2, 64, 2, QueryHome::registers, 2},
    {96, 96, 4, 2, 32, 2, QueryHome::shared, 2},    {128, 128, 4, 2, 32, 2, QueryHome::shared, 2},
    {192, 128, 4, 2, 32, 2, QueryHome::shared, 2},  {192, 192, 4, 1, 64, 1, QueryHome::shared, 2},
    {256, 256, 4, 1, 64, 1, QueryHome::shared, 2},
};

inline constexpr int plain_count = sizeof(plain_tiles) / sizeof(TileChoice);
inline constexpr int changed_count = sizeof(changed_tiles) / sizeof(TileChoice);
inline constexpr int registry_size = 30;  // TilefoldInstances.cmake reads this line
static_assert(registry_size == 2 * (plain_count + changed_count), "two types, two formulas");

TILEFOLD_HD constexpr ForwardConfig config_of(HalfType type, Formula formula, const TileChoice& t) {
  return {type,     t.head_dim,   t.value_dim,
          t.warps,  t.row_blocks, t.tile_keys,
          t.stages, t.query,      formula == Formula::plain ? KeyHome::strided : KeyHome::paged,
          formula,  t.share,      t.blocks_per_sm};
}

/// Entry `index`: tiles fastest, then formulas, then types.
TILEFOLD_HD constexpr ForwardConfig registry(int index) {
  const HalfType type = index < registry_size / 2 ? HalfType::bf16 : HalfType::f16;
  const int tile = index % (registry_size / 2);
  return tile < plain_count ? config_of(type, Formula::plain, plain_tiles[tile])
                            : config_of(type, Formula::changed, changed_tiles[tile - plain_count]);
}

}  // namespace tilefold::cuda::sm80
