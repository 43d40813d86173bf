// A side tensor of integers that a formula reads, with the least and largest value of each block.
//
// The blocks answer intervals: Lookup::at(batch, Interval) bounds every value a tile may read, so
// that document masks and block lists skip tiles too.
#pragma once

#include "tilefold/score/interval.hpp"
#include "tilefold/score/position.hpp"

namespace tilefold::score {

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
  TILEFOLD_HD Position at(int batch, Position position) const { return at(batch, position.sum()); }
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

}  // namespace tilefold::score
