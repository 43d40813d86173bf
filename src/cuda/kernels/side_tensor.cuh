// A side tensor that lies on the device, as formulas read it: rows padded at both ends, and cells
// that hold the least and largest value of their entries.
//
// Grid of pad_rows: a thread an element of the padded rows; of build_cells: a thread a cell of one
// level, which is built from the level below. 256 threads a block.
#pragma once

#include "cuda/kernels/side_tensor.hpp"

namespace tilefold::cuda {

__global__ void __launch_bounds__(256) pad_rows(const __grid_constant__ PaddedRows rows) {
  const long long at = blockIdx.x * 256LL + threadIdx.x;
  if (at < rows.elements) rows.to[at] = rows.from[source_of(rows, at)];
}

template <class T> __global__ void __launch_bounds__(256)
    build_cells(const __grid_constant__ score::SideArray<T> array, int level) {
  const long long cell = blockIdx.x * 256LL + threadIdx.x;
  if (cell >= array.cells_of(level)) return;
  const score::LowHigh<T> bounds = bounds_below(array, level, cell);
  const_cast<T*>(array.low)[array.begin[level - 1] + cell] = bounds.low;
  const_cast<T*>(array.high)[array.begin[level - 1] + cell] = bounds.high;
}

}  // namespace tilefold::cuda
