// The rungs as the files beside this one describe them; ladder.cpp makes the table of them.
#pragma once

#include "cuda/launch/ladder.hpp"

namespace tilefold::cuda::ladder {

Rung naive_rung();
Rung v1_rung();
Rung tile_rung();
Rung v2_rung();
Rung half_f16_rung();
Rung half_bf16_rung();
Rung half_f16_accumulate_rung();
Rung sm90_minimal_f16_rung();
Rung sm90_minimal_bf16_rung();

/// Each tensor once: Q and O, K and V.
std::int64_t bytes_once(const Shape& shape, Element element);

/// Bytes that blocks of `tile` query rows ask for, each with K and V up to the last key it sees in
/// tiles of `key_tile`, beside Q and O once.
std::int64_t bytes_by_query_tiles(const Shape& shape, Element element, int tile, int key_tile);

}  // namespace tilefold::cuda::ladder
