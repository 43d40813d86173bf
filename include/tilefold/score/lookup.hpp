// A side tensor of integers that a formula reads, with the least and largest value of each block.
//
// The blocks answer intervals: Lookup::at(batch, Interval) bounds every value a tile may read, so
// that document masks and block lists skip tiles too. Beside it a table of float that score changes
// read.
#pragma once

#include "tilefold/score/interval.hpp"
#include "tilefold/score/position.hpp"

namespace tilefold::score {

/// Elements that a device's copy of a side tensor repeats before its first and behind its last: a
/// Position then needs its base held inside, once for all elements of a thread, and not its sum.
/// Offsets of a query, a key and their difference lie in -64 .. 127.
inline constexpr int side_tensor_pad = 192;

/// Element `p` of a padded row of `size`. One address serves all offsets of a base. Nothing writes
/// the row while a kernel runs: loads of it may move.
template <class T> TILEFOLD_HD T padded_element(const T* row, Position p, int size) {
  const T* at = row + smaller(larger(p.base, -128), size + 64);
  return loaded(at + p.offset);
}

/// [batch, positions] int32. Positions outside [0, positions) read the nearest one: they belong to
/// no key, and what a mask says of them is never used.
struct Lookup {
  static constexpr int block = 64;
  const int* values;       ///< [batch, positions], row stride `batch_stride`
  const int* low;          ///< [batch, ceil(positions / block)] least value of each block
  const int* high;         ///< likewise the largest
  long long batch_stride;  ///< 0 where all sequences share one row
  int positions;

  TILEFOLD_HD int at(int batch, int position) const {
    return values[batch * batch_stride + clamped(position)];
  }
  /// Of a padded copy.
  TILEFOLD_HD Position at(int batch, Position position) const {
    return padded_element(values + batch * batch_stride, position, positions);
  }
  TILEFOLD_HD Interval at(int batch, Interval position) const {
    const int blocks = (positions + block - 1) / block;
    const long long row = batch_stride == 0 ? 0 : 1LL * batch * blocks;
    const int last = clamped(position.high) / block;
    Interval bound{low[row + clamped(position.low) / block],
                   high[row + clamped(position.low) / block]};
    for (int b = clamped(position.low) / block + 1; b <= last; ++b)
      bound = {smaller(bound.low, low[row + b]), larger(bound.high, high[row + b])};
    return bound;
  }
  TILEFOLD_HD constexpr int clamped(int position) const {
    return position < 0 ? 0 : position >= positions ? positions - 1 : position;
  }
};

/// [rows, size] float32. Columns outside [0, size) read the nearest one.
struct Table {
  const float* values;
  long long row_stride;
  int rows, size;

  TILEFOLD_HD float at(int row, int column) const {
    return values[row * row_stride + smaller(larger(column, 0), size - 1)];
  }
  /// Of a padded copy.
  TILEFOLD_HD float at(int row, Position column) const {
    return padded_element(values + row * row_stride, column, size);
  }
};

}  // namespace tilefold::score
