// How the threads of a block lie over a tile that they load: plain arithmetic, for host and device.
#pragma once

#include "cuda/tile/swizzle.cuh"

namespace tilefold::cuda::sm80 {

/// The threads of a block over a tile of `columns`.
template <int columns, int threads, SharedLayout layout = SharedLayout::swizzled> struct Lanes {
  using Tile = Swizzle<columns, layout>;
  static constexpr int across = Tile::lanes_a_row;
  static constexpr int rows_a_pass = threads / across;
  static constexpr int groups = Tile::chunks / across;  // chunks a thread moves of each row
  static_assert(rows_a_pass % 8 == 0, "the swizzle turn of a thread is fixed");

  TILEFOLD_HD static constexpr int row(int thread) { return thread / across; }
  TILEFOLD_HD static constexpr int chunk(int thread) { return thread % across; }
  TILEFOLD_HD static constexpr int offset(int thread) {
    return Tile::offset(row(thread), chunk(thread));
  }
  /// From a thread's first chunk to the one of pass p and group g.
  TILEFOLD_HD static constexpr int step(int pass, int group) {
    return pass * rows_a_pass * Tile::row_bytes + group * across * Tile::chunk_bytes;
  }
  /// Bytes to read of a chunk group: the columns from `present` on are zeros.
  TILEFOLD_HD static constexpr int bytes(int thread, int group, int present) {
    return (chunk(thread) + group * across) * Tile::chunk_elements < present ? 16 : 0;
  }
};

/// Where a lane puts its pairs of weights so that ldmatrix finds operand a: a swizzled tile of
/// `keys` columns, a chunk of 8 of them a group of its sums.
template <int keys> struct WeightLane {
  using Tile = Swizzle<keys>;
  int base, turn;

  TILEFOLD_HD static constexpr WeightLane of(int lane) {
    return {lane / 4 * Tile::row_bytes + 4 * (lane % 4), Tile::turn(lane / 4)};
  }
  /// Of row lane / 4 + 8 * eighth: rows 8 apart turn alike.
  TILEFOLD_HD constexpr int at(int eighth, int chunk) const {
    return base + 8 * eighth * Tile::row_bytes + (chunk ^ turn) * Tile::chunk_bytes;
  }
};

}  // namespace tilefold::cuda::sm80
