// Tiles that the sm80 registry might hold: forward_bench times them beside those that it does hold.
// A row is added here, the count below it raised, and nothing else: CMake compiles one unit a row.
#pragma once

#include "cuda/kernels/sm80/config.hpp"

namespace tilefold::bench {

namespace candidates {

using namespace cuda;
using namespace cuda::sm80;

/// bf16, range masks and no other formula, dense keys, equal head dimensions.
constexpr ForwardConfig plain(int head_dim, int warps, int row_blocks, int tile_keys, int stages,
                              QueryHome query, int blocks_per_sm) {
  return {HalfType::bf16, head_dim, head_dim,         warps,          row_blocks,   tile_keys,
          stages,         query,    KeyHome::strided, Formula::plain, blocks_per_sm};
}

constexpr QueryHome registers = QueryHome::registers, shared = QueryHome::shared;

inline constexpr ForwardConfig tiles[] = {
    plain(64, 4, 2, 32, 3, registers, 3),  plain(64, 4, 2, 64, 3, registers, 2),
    plain(64, 8, 2, 64, 2, registers, 1),  plain(64, 4, 1, 64, 2, registers, 4),
    plain(128, 4, 2, 64, 1, shared, 2),    plain(128, 4, 2, 32, 3, shared, 2),
    plain(128, 8, 2, 64, 2, shared, 1),    plain(128, 8, 1, 64, 2, registers, 1),
    plain(128, 4, 1, 64, 2, registers, 2), plain(256, 4, 1, 32, 2, registers, 2),
    plain(256, 4, 1, 32, 2, shared, 2),    plain(256, 8, 1, 64, 2, shared, 1),
    plain(256, 8, 1, 32, 3, registers, 1),
};

}  // namespace candidates

inline constexpr int sm80_candidate_count = 13;  // sm80_candidates.cmake reads this line
static_assert(sm80_candidate_count * sizeof(cuda::sm80::ForwardConfig) ==
              sizeof(candidates::tiles));

constexpr cuda::sm80::ForwardConfig sm80_candidate(int index) { return candidates::tiles[index]; }

/// Address of candidate `index`: __global__ void(ForwardParams). Defined one unit a candidate.
template <int index> const void* sm80_candidate_function();

}  // namespace tilefold::bench
