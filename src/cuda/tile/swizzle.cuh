// Where the elements of a 16-bit tile lie in shared memory.
//
// A row is cut into chunks of 16 bytes, what one lane of ldmatrix or cp.async moves. Shared memory
// moves 128 bytes at once, 8 chunks of different bank groups; ldmatrix wants 8 rows of one chunk
// column, which a plain layout puts 8 deep into one bank group. So the chunk number is XORed with
// the row's number:
//   rows of a multiple of 8 chunks:  chunk ^ (row % 8)
//   other multiples of 4:            chunk ^ (row / 2 % 4); two neighbours differ by an odd half
//   line
// Both are bijections within a row; tests/cuda/sm80_index_test.cpp counts the conflicts: none.
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::cuda {

/// `plain` leaves every chunk in its place: eight-fold bank conflicts, for comparison only. Neither
/// is 0: g++ and nvcc differ in whether the name of a template spells the zeros at a value's end,
/// and kernels are found by their names.
enum class SharedLayout { swizzled = 1, plain = 2 };

/// A tile of rows of `columns` 16-bit elements, a multiple of 32.
template <int columns, SharedLayout layout = SharedLayout::swizzled> struct Swizzle {
  static_assert(columns % 32 == 0, "XOR stays within groups of 4 chunks");
  static constexpr int chunk_bytes = 16, chunk_elements = 8;
  static constexpr int chunks = columns / chunk_elements;
  static constexpr int row_bytes = columns * 2;
  /// Lanes side by side in a row when a tile is loaded: whole lines where rows allow it.
  static constexpr int lanes_a_row = chunks % 8 == 0 ? 8 : 4;

  TILEFOLD_HD static constexpr int turn(int row) {
    if constexpr (layout == SharedLayout::plain) return 0;
    return chunks % 8 == 0 ? row & 7 : (row >> 1) & 3;
  }
  /// Bytes from the start of the tile.
  TILEFOLD_HD static constexpr int offset(int row, int chunk) {
    return row * row_bytes + (chunk ^ turn(row)) * chunk_bytes;
  }
};

/// One lane's place for ldmatrix: the row is fixed up to multiples of 16, the chunk moves by pairs.
/// The XOR of an even constant commutes with the lane's own bit: two instructions an address.
template <int columns, SharedLayout layout = SharedLayout::swizzled> struct LaneAddress {
  using Tile = Swizzle<columns, layout>;

  int base;  // bytes: the row's start
  int turn;  // bytes: the lane's chunk bit, XORed with the row's turn

  TILEFOLD_HD static constexpr LaneAddress of(int row, int chunk_bit) {
    return {row * Tile::row_bytes, (chunk_bit ^ Tile::turn(row)) * Tile::chunk_bytes};
  }
  /// Chunk pair p holds columns [16 p, 16 p + 16).
  TILEFOLD_HD constexpr int at(int pair) const { return base + ((32 * pair) ^ turn); }
};

}  // namespace tilefold::cuda
