// Tiles that the sm80 registry might hold: forward_bench times them beside those that it does hold.
// A row is added here, the count below it raised, and nothing else: CMake compiles one unit a row.
#pragma once

#include "cuda/kernels/sm80/config.hpp"

namespace tilefold::bench {

namespace candidates {

using namespace cuda;
using namespace cuda::sm80;

/// bf16, range masks and no other formula, dense keys, equal head dimensions. Four warps share 64
/// rows; K and V take turns.
constexpr ForwardConfig shared_rows(int head_dim, int warps, int tile_keys, int blocks_per_sm) {
  return {HalfType::bf16,
          head_dim,
          head_dim,
          warps,
          1,
          tile_keys,
          1,
          QueryHome::shared,
          KeyHome::strided,
          Formula::plain,
          Share::columns,
          blocks_per_sm};
}

/// The same tile for every formula and paged keys.
constexpr ForwardConfig changed(ForwardConfig c) {
  c.keys = KeyHome::paged, c.formula = Formula::changed;
  return c;
}

inline constexpr ForwardConfig tiles[] = {
    // Output rows too wide for one warp: not timed yet.
    shared_rows(192, 4, 64, 2),
    changed(shared_rows(256, 4, 64, 2)),
};

}  // namespace candidates

inline constexpr int sm80_candidate_count = 2;  // TilefoldInstances.cmake reads this line
static_assert(sm80_candidate_count * sizeof(cuda::sm80::ForwardConfig) ==
              sizeof(candidates::tiles));

constexpr cuda::sm80::ForwardConfig sm80_candidate(int index) { return candidates::tiles[index]; }

/// Address of candidate `index`: __global__ void(ForwardParams). Defined one unit a candidate.
template <int index> const void* sm80_candidate_function();

}  // namespace tilefold::bench
