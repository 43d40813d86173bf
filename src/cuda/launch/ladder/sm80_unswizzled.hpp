// The sm80 kernel as the registry has it for float16, but with plain rows in shared memory: what
// the swizzle is worth.
#pragma once

#include "cuda/kernels/sm80/registry.hpp"

namespace tilefold::cuda::ladder {

/// The registry's f16 entry of this head dimension, 64 or 128, without its swizzle.
TILEFOLD_HD constexpr sm80::ForwardConfig unswizzled(int head_dim) {
  const sm80::TileChoice* tile = sm80::plain_tiles;
  while (tile->head_dim < head_dim) ++tile;
  sm80::ForwardConfig config = sm80::config_of(HalfType::f16, sm80::Formula::plain, *tile);
  config.layout = SharedLayout::plain;
  return config;
}

/// __global__ void(ForwardParams) of that configuration.
const void* unswizzled_function(int head_dim);

}  // namespace tilefold::cuda::ladder
