// Joins the parts of rows that were split over keys, in ascending order, and closes the rows.
//
// Grid: WorkShape::merge_blocks() blocks of 128 threads a work item of the forward kernel; only a
// row tile's first split has anything to do. A block's warps take rows in turn with those of the
// item's other blocks; a thread owns columns of a row and folds its parts alone.
#pragma once

#include "cuda/kernels/finish.cuh"

namespace tilefold::cuda {

struct MergeShape {
  static constexpr int threads = 128, warps = WorkShape::merge_warps;
};

/// A row's parts: `stride` elements from one split's to the next's.
struct RowParts {
  const float *max, *sum, *out;
  long long stride;
  int splits;
};

/// Folds the parts of one column; `part` becomes the row's.
__device__ __forceinline__ float fold_column(const RowParts& parts, int value_dim, int column,
                                             fold::Part<float>& part) {
  part = fold::Part<float>::empty();
  float out = 0.0f;
#pragma unroll 4
  for (int split = 0; split < parts.splits; ++split) {
    const long long at = split * parts.stride;
    fold::Weights<float> weights;
    part = fold::join(part, fold::Part<float>{parts.max[at], parts.sum[at]}, weights);
    out = out * weights.left + parts.out[at * value_dim + column] * weights.right;
  }
  return out;
}

__global__ void __launch_bounds__(MergeShape::threads)
    merge_parts(const __grid_constant__ ForwardParams p) {
  const int groups = p.shape.merge_blocks();
  const ForwardWork work = work_of(p, blockIdx.x / groups);
  if (work.rows == 0 || work.splits == 1 || work.split != 0) return;
  const SequenceInfo s = p.sequences[work.sequence];
  const int warp = int(blockIdx.x) % groups * MergeShape::warps + int(threadIdx.x) / 32;
  const int lane = int(threadIdx.x) % 32;
  for (int r = warp; r < work.rows; r += MergeShape::warps * groups) {
    const long long first = work.part * p.shape.tile_rows + r;
    const RowParts parts{p.part_max + first, p.part_sum + first, p.part_out + first * p.value_dim,
                         p.shape.tile_rows, work.splits};
    const QueryPlace row = query_of(p, s, work.kv_head, work.first_row + r);
    const long long at = out_offset(p, s, work.sequence, row);
    for (int c = lane; c < p.value_dim; c += 32) {
      fold::Part<float> part;
      const float out = fold_column(parts, p.value_dim, c, part);
      const RowEnd end = end_of_row(p, s, row.head, part);
      store_element(p.out, p.out_type, at + c, out * end.factor);
      if (c == 0) store_lse(p, s, work.sequence, row, end.lse);
    }
  }
}

}  // namespace tilefold::cuda
