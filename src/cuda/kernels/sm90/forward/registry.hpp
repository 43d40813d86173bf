// The forward kernels of this family that are built, as one table of values. Instances, launch
// table, tests and budgets are made from it: a row is added here and nowhere else.
//
// How each shape was chosen: docs/kernels/forward_sm90.md.
#pragma once

#include "cuda/kernels/sm90/forward/config.hpp"

namespace tilefold::cuda::sm90 {

/// The tile of one pair of head dimensions.
struct TileChoice {
  int head_dim, value_dim;
  int tile_keys, stages, query_stages, consumers;
};

// Smallest first: a problem takes the first that holds its dimensions.
inline constexpr TileChoice range_tiles[] = {
    {64, 64, 128, 3, 2, 3},   {96, 96, 128, 2, 2, 2},   {128, 128, 128, 2, 2, 2},
    {192, 128, 128, 2, 1, 2}, {192, 192, 112, 2, 1, 2}, {256, 256, 80, 2, 1, 2},
};
// The same dimensions; formulas take registers.
inline constexpr TileChoice changed_tiles[] = {
    {64, 64, 128, 2, 2, 2},   {96, 96, 128, 2, 2, 2},  {128, 128, 128, 2, 2, 2},
    {192, 128, 112, 2, 1, 2}, {192, 192, 96, 2, 1, 2}, {256, 256, 64, 2, 1, 2},
};

// Formulas compiled in: as they are read, but at 64, where three consumers gain on long rows. Those
// of two are for masks of blocks that tiles of 192 rows straddle.
inline constexpr TileChoice compiled_tiles[] = {
    range_tiles[0],   changed_tiles[1], changed_tiles[2], changed_tiles[3],
    changed_tiles[4], changed_tiles[5], changed_tiles[0]};
inline constexpr int compiled_shapes = sizeof(compiled_tiles) / sizeof(TileChoice);

inline constexpr int shapes = sizeof(range_tiles) / sizeof(TileChoice);
static_assert(shapes == sizeof(changed_tiles) / sizeof(TileChoice));
inline constexpr int registry_size = 24;  // TilefoldInstances.cmake reads this line
static_assert(registry_size == 4 * shapes, "two types, two formulas");

TILEFOLD_HD constexpr ForwardConfig config_of(HalfType type, Formula formula, const TileChoice& t,
                                              bool plain = false) {
  return {type,           t.head_dim,  t.value_dim, t.tile_keys, t.stages,
          t.query_stages, t.consumers, formula,     plain};
}

/// Entry `index`: shapes fastest, then formulas, then types.
TILEFOLD_HD constexpr ForwardConfig registry(int index) {
  const HalfType type = index / (2 * shapes) == 0 ? HalfType::bf16 : HalfType::f16;
  const bool range = index / shapes % 2 == 0;
  return config_of(type, range ? Formula::range : Formula::changed,
                   range ? range_tiles[index % shapes] : changed_tiles[index % shapes]);
}

}  // namespace tilefold::cuda::sm90
