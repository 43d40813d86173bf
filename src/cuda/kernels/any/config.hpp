// The shape of the plain-load kernel: any head dimension and element type, any card from 8.0 on.
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::cuda::any {

struct ForwardConfig {
  int tile_rows;  // packed query rows of a block: 16, or 8 where wide heads would not fit

  static constexpr int threads = 128, warps = 4;
  static constexpr int tile_keys = 32;  // one a lane
  static constexpr int columns = 64;    // of K or V held at once
  // An odd stride: lanes that read one column of 32 keys hit 32 banks.
  static constexpr int chunk_stride = columns + 1, score_stride = tile_keys + 1;

  TILEFOLD_HD constexpr int rows_a_thread() const { return tile_rows / warps; }
  /// Dynamic shared memory: 64-bit places first, then floats.
  TILEFOLD_HD constexpr int shared_bytes(int head_dim, int value_dim) const {
    const int places = 16 * tile_keys;
    const int floats = tile_rows * (head_dim + value_dim) + tile_keys * chunk_stride +
                       tile_rows * score_stride + tile_keys + 3 * tile_rows;
    const int ints = warps * tile_keys + 2 * tile_rows;
    return places + 4 * (floats + ints);
  }
  TILEFOLD_HD constexpr bool valid() const { return tile_rows % warps == 0 && tile_rows % 2 == 0; }
};

/// A configuration as a type: nvcc 13.0 writes a broken host stub for a __global__ over the value.
template <ForwardConfig config> struct Choice {
  static constexpr ForwardConfig value = config;
  static_assert(value.valid());
};

}  // namespace tilefold::cuda::any
