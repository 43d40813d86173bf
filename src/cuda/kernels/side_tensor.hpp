// A side tensor's entries and where its padded rows are to lie. Integers and reals have 4 bytes
// alike.
#pragma once

#include "tilefold/score/side_array.hpp"

namespace tilefold::cuda {

struct PaddedRows {
  const unsigned* from;
  long long stride[score::SideArray<int>::max_rank];
  int size[score::SideArray<int>::max_rank];
  int rank;
  unsigned* to;        // of the first row's padding
  long long elements;  // of all padded rows
};

/// Entry of the source that element `at` of the padded rows holds: its own, or the row's nearest.
TILEFOLD_HD constexpr long long source_of(const PaddedRows& rows, long long at) {
  const int last = rows.rank - 1, size = rows.size[last];
  const long long width = size + 2 * score::side_tensor_pad;
  const int column = int(at % width) - score::side_tensor_pad;
  long long row = at / width;
  long long from = (column < 0 ? 0 : column >= size ? size - 1 : column) * rows.stride[last];
  for (int axis = last - 1; axis >= 0; --axis) {
    from += row % rows.size[axis] * rows.stride[axis];
    row /= rows.size[axis];
  }
  return from;
}

}  // namespace tilefold::cuda
