// How wgmma finds a matrix in shared memory: the 64-bit descriptor of PTX ISA, asynchronous
// warpgroup level matrix instructions.
//
// A tile of 16-bit elements lies as TMA with a 128-byte swizzle writes it: groups of 64 columns,
// one after the other; in a group a row is 128 bytes, and 8 rows, 1024 bytes, are the unit of the
// swizzle. Tiles start at multiples of 1024.
//
//   [group of 64 columns][row][64 columns]
//
// Read along the row (K-major: Q and K of S = Q K^T, where the product runs over columns), 16
// columns further are 32 bytes further, and the next group of 64 columns is rows * 128 bytes
// further. Read across rows (MN-major: V of O += P V, where the product runs over rows), 16 rows
// further are 2048 bytes further, and one instruction finds all column groups itself.
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::cuda {

enum class SwizzleBytes : int {
  none = 0,
  b128 = 1,
  b64 = 2,
  b32 = 3
};  // as the descriptor counts them

/// A descriptor. Advancing it by bytes is one addition, as long as the address stays below 2^18.
struct MatrixDescriptor {
  unsigned long long bits;

  /// Bits 0-13 address / 16, 16-29 leading offset / 16, 32-45 stride offset / 16, 49-51 base offset
  /// (0: aligned tiles), 62-63 swizzle.
  TILEFOLD_HD static constexpr MatrixDescriptor of(unsigned address, unsigned leading_bytes,
                                                   unsigned stride_bytes, SwizzleBytes swizzle) {
    return {(unsigned long long)((address & 0x3ffffu) >> 4) |
            (unsigned long long)(leading_bytes >> 4) << 16 |
            (unsigned long long)(stride_bytes >> 4) << 32 |
            (unsigned long long)(int(swizzle)) << 62};
  }
  /// A tile read along its rows; the leading offset has no meaning there.
  TILEFOLD_HD static constexpr MatrixDescriptor k_major(unsigned address) {
    return of(address, 16, 1024, SwizzleBytes::b128);
  }
  /// A tile of `rows` rows read across them.
  TILEFOLD_HD static constexpr MatrixDescriptor mn_major(unsigned address, int rows) {
    return of(address, unsigned(rows) * 128, 1024, SwizzleBytes::b128);
  }

  TILEFOLD_HD constexpr MatrixDescriptor advanced(int bytes) const {
    return {bits + (unsigned long long)(bytes >> 4)};
  }
  /// A K-major tile of `rows` rows from its k16 step `step` on: columns [16 step, 16 step + 16).
  TILEFOLD_HD constexpr MatrixDescriptor at_columns(int step, int rows) const {
    return advanced(step / 4 * rows * 128 + step % 4 * 32);
  }
  /// An MN-major tile from its k16 step `step` on: rows [16 step, 16 step + 16).
  TILEFOLD_HD constexpr MatrixDescriptor at_rows(int step) const { return advanced(step * 2048); }
};

/// The byte of element (row, column) in a tile of `rows` rows of 16-bit elements under the 128-byte
/// swizzle: the 16-byte chunk is XORed with the row's place among 8.
TILEFOLD_HD constexpr int swizzled_byte(int row, int column, int rows) {
  const int chunk = column % 64 / 8;
  return column / 64 * rows * 128 + row * 128 + (chunk ^ row % 8) * 16 + column % 8 * 2;
}

}  // namespace tilefold::cuda
