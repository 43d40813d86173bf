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
};

// Smallest first: a problem takes the first that holds its dimensions. Tiles of 64, 128 and 256 are
// the fastest of those that docs/kernels/sm80.md measured on an H200.
inline constexpr TileChoice plain_tiles[] = {
    {32, 32, 4, 2, 64, 3, QueryHome::registers, 3}, {64, 64, 4, 2, 128, 2, QueryHome::shared, 2},
    {96, 96, 4, 2, 64, 2, QueryHome::shared, 2},    {128, 128, 4, 2, 64, 2, QueryHome::shared, 2},
    {192, 128, 4, 2, 32, 2, QueryHome::shared, 2},  {192, 192, 4, 1, 64, 1, QueryHome::shared, 2},
    {256, 256, 4, 1, 64, 1, QueryHome::shared, 2},
};
// The same dimensions; formulas take registers, so tiles are smaller.
inline constexpr TileChoice changed_tiles[] = {
    {32, 32, 4, 2, 64, 2, QueryHome::registers, 2}, {64, 64, 4, 2, 64, 2, QueryHome::registers, 2},
    {96, 96, 4, 2, 32, 2, QueryHome::shared, 2},    {128, 128, 4, 2, 32, 2, QueryHome::shared, 2},
    {192, 128, 4, 2, 32, 2, QueryHome::shared, 2},  {192, 192, 4, 1, 64, 1, QueryHome::shared, 2},
    {256, 256, 4, 1, 64, 1, QueryHome::shared, 2},
};

inline constexpr int shapes = sizeof(plain_tiles) / sizeof(TileChoice);
static_assert(shapes == sizeof(changed_tiles) / sizeof(TileChoice));
inline constexpr int registry_size = 28;  // instances.cmake reads this line
static_assert(registry_size == 4 * shapes, "two types, two formulas");

TILEFOLD_HD constexpr ForwardConfig config_of(HalfType type, Formula formula, const TileChoice& t) {
  return {type,     t.head_dim,   t.value_dim,
          t.warps,  t.row_blocks, t.tile_keys,
          t.stages, t.query,      formula == Formula::plain ? KeyHome::strided : KeyHome::paged,
          formula,  Share::rows,  t.blocks_per_sm};
}

/// Entry `index`: shapes fastest, then formulas, then types.
TILEFOLD_HD constexpr ForwardConfig registry(int index) {
  const HalfType type = index / (2 * shapes) == 0 ? HalfType::bf16 : HalfType::f16;
  const bool plain = index / shapes % 2 == 0;
  return config_of(type, plain ? Formula::plain : Formula::changed,
                   plain ? plain_tiles[index % shapes] : changed_tiles[index % shapes]);
}

}  // namespace tilefold::cuda::sm80
