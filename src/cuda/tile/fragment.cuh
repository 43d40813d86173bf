// Who holds what: the register fragments of mma.m16n8k16 and the addresses that ldmatrix wants.
//
// Lane l of a warp is in quad l / 4 at place l % 4.
//   sum (16 x 8)   element e: row l / 4 + 8 (e / 2), column 2 (l % 4) + e % 2
//   a (16 x 16)    register r: row l / 4 + 8 (r % 2), columns 2 (l % 4) + 8 (r / 2) + {0, 1}
//   b (16 x 8)     register r: k 2 (l % 4) + 8 r + {0, 1}, column l / 4
// so the sums of two neighbouring 16 x 8 blocks, rounded, are the a of the next product: P stays in
// registers.
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::cuda {

struct Place2D {
  int row, column;
};

TILEFOLD_HD constexpr Place2D sum_place(int lane, int element) {
  return {lane / 4 + 8 * (element / 2), 2 * (lane % 4) + element % 2};
}
TILEFOLD_HD constexpr Place2D a_place(int lane, int index, int half) {
  return {lane / 4 + 8 * (index % 2), 2 * (lane % 4) + 8 * (index / 2) + half};
}
/// row is k, column is n.
TILEFOLD_HD constexpr Place2D b_place(int lane, int index, int half) {
  return {2 * (lane % 4) + 8 * index + half, lane / 4};
}

/// Of a thread's elements of a row of sums, a bit each (2 a group of 8 columns), those less than
/// `keys` columns from its first.
TILEFOLD_HD constexpr unsigned elements_below(int keys) {
  const unsigned before = unsigned(score::larger(keys, 0));
  const unsigned count = before / 8 * 2 + score::smaller(before % 8, 2u);
  return count < 32 ? (1u << count) - 1 : ~0u;
}

/// The row and 16-byte chunk that a lane points ldmatrix.x4 at.
struct MatrixRow {
  int row, chunk;
};
/// Q, 16 rows x 16 columns: matrices (rows 0-7, 8-15) x (chunk 0, 1) in the order of a's registers.
TILEFOLD_HD constexpr MatrixRow query_matrix_row(int lane) { return {lane % 16, lane / 16}; }
/// K, 16 keys x 16 columns: registers 0, 1 are b of keys 0-7, registers 2, 3 of keys 8-15.
TILEFOLD_HD constexpr MatrixRow key_matrix_row(int lane) {
  return {lane % 8 + lane / 16 * 8, lane / 8 % 2};
}
/// V, 16 keys x 16 columns, transposed on the way: registers 0, 1 are b of columns 0-7, 2, 3 of
/// 8-15.
TILEFOLD_HD constexpr MatrixRow value_matrix_row(int lane) { return {lane % 16, lane / 16}; }

}  // namespace tilefold::cuda
