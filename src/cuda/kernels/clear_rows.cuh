// Rows of the output that belong to no sequence: out = 0, lse = -inf.
//
// Grid: one warp a row of the output tensor, all heads; 128 threads a block.
#pragma once

#include "cuda/kernels/clear_rows.hpp"
#include "cuda/kernels/forward_params.cuh"
#include "cuda/tile/element.cuh"

namespace tilefold::cuda {

/// Where row `index` of the tensor stands, or outer = -1 where a sequence owns it.
TILEFOLD_HD constexpr RowPlace unowned_row(const ForwardParams& p, OutputRows rows,
                                           long long index) {
  if (rows.per_sequence == 0) {
    long long owned = 0;
    if (p.batch > 0)
      owned = p.sequences[p.batch - 1].query_begin + p.sequences[p.batch - 1].query_length;
    return {index < owned ? -1 : 0, index};
  }
  const long long sequence = index / rows.per_sequence, row = index % rows.per_sequence;
  return {row < p.sequences[sequence].query_length ? -1 : sequence, row};
}

__global__ void __launch_bounds__(128)
    clear_rows(const __grid_constant__ ForwardParams p, const __grid_constant__ OutputRows rows) {
  const long long index = blockIdx.x * 4LL + threadIdx.x / 32;
  if (index >= rows.total) return;
  const RowPlace place = unowned_row(p, rows, index);
  if (place.outer < 0) return;
  for (int head = 0; head < p.query_heads; ++head) {
    const long long at = place.offset(p.out_strides, head);
    for (int c = int(threadIdx.x) % 32; c < p.value_dim; c += 32)
      store_element(p.out, p.out_type, at + c, 0.0f);
    if (p.lse != nullptr && threadIdx.x % 32 == 0)
      p.lse[place.offset(p.lse_strides, head)] = -score::infinity<float>();
  }
}

}  // namespace tilefold::cuda
