// Rung 1, naive: the definition, one kernel a step, scores and probabilities in device memory.
//
//   scores          S = scale * Q K^T, hidden keys -inf   a block computes 16 x 16 scores
//   probabilities   P = softmax(S), row by row, in place  a warp owns a row
//   weighted_sum    O = P V                               a block owns 16 rows of one head
//
// Device memory: S is written, read, written again as P and read again: 4 * heads * Sq * Sk floats
// beside the 2 * (Sq + Sk) * D of the tensors, 4096 * 4 / (2 * 64 * 2) = 64 times as much at 4096
// keys and D = 64. A masked score costs as much as a seen one. Workspace: heads * Sq * Sk floats.
//
// Shared memory: scores 2 * 16 * (D + 4) floats, 16.5 KB at D = 128; weighted_sum 16 * 16 + 16 * D
// floats, 9 KB: no attribute is needed below 48 KB.
#pragma once

#include "cuda/kernels/ladder/rows.cuh"

namespace tilefold::cuda::ladder::naive {

constexpr int tile = 16, threads = tile * tile, warps = threads / 32;

template <int head_dim> struct ScorePlan {
  static constexpr int stride = padded_stride<float, head_dim>;
  alignas(16) float queries[tile * stride];
  alignas(16) float keys[tile * stride];
};
template <int head_dim> struct SumPlan {
  alignas(16) float weights[tile * tile];
  alignas(16) float values[tile * head_dim];
};

__device__ inline long long score_index(const Shape& shape, int head_index, int query) {
  return ((long long)head_index * shape.query_length + query) * shape.key_length;
}

/// Grid: heads * query tiles * key tiles, key tiles fastest. Thread: one score.
template <int head_dim> __global__ void __launch_bounds__(threads)
    scores(Operands<float> operands, Shape shape) {
  constexpr int stride = ScorePlan<head_dim>::stride;
  auto& plan = shared_plan<ScorePlan<head_dim>>();
  const int key_tiles = tiles_over(shape.key_length, tile);
  const int query_tiles = tiles_over(shape.query_length, tile);
  const int first_key = int(blockIdx.x % unsigned(key_tiles)) * tile;
  const QueryTile rows = query_tile(blockIdx.x / unsigned(key_tiles), query_tiles, tile);

  copy_rows<threads, tile, head_dim, stride>(
      plan.queries, queries_of(operands, shape, rows.head_index), rows.first_query);
  copy_rows<threads, tile, head_dim, stride>(plan.keys, keys_of(operands, shape, rows.head_index),
                                             first_key);
  __syncthreads();

  const int row = int(threadIdx.x) / tile, column = int(threadIdx.x) % tile;
  const int query = rows.first_query + row, key = first_key + column;
  if (query >= shape.query_length || key >= shape.key_length) return;
  float dot = 0;
  for (int d = 0; d < head_dim; ++d)
    dot += plan.queries[row * stride + d] * plan.keys[column * stride + d];
  const bool seen = key < shape.keys_seen(query);
  operands.workspace[score_index(shape, rows.head_index, query) + key] =
      seen ? dot * shape.scale : -score::infinity<float>();
}

/// Grid: ceil(heads * Sq / 8); a warp a row. The three passes over a row of up to 64 KB meet it in
/// L1 or L2 after the first.
template <int head_dim> __global__ void __launch_bounds__(threads)
    probabilities(Operands<float> operands, Shape shape) {
  const long long row = (long long)blockIdx.x * warps + threadIdx.x / 32;
  if (row >= (long long)shape.heads_in_all() * shape.query_length) return;
  float* const scores = operands.workspace + row * shape.key_length;
  const int lane = int(threadIdx.x) % 32;

  float row_max = -score::infinity<float>();
  for (int key = lane; key < shape.key_length; key += 32) row_max = fmaxf(row_max, scores[key]);
  const float shift = shift_of(largest_of<32>(row_max));

  float sum = 0;
  for (int key = lane; key < shape.key_length; key += 32) sum += score::exp(scores[key] - shift);
  const float normaliser = reciprocal_or_zero(sum_of<32>(sum));

  for (int key = lane; key < shape.key_length; key += 32)
    scores[key] = score::exp(scores[key] - shift) * normaliser;
}

/// Grid: heads * query tiles. Thread: one row, every 16th column.
template <int head_dim> __global__ void __launch_bounds__(threads)
    weighted_sum(Operands<float> operands, Shape shape) {
  constexpr int columns = head_dim / tile;
  auto& plan = shared_plan<SumPlan<head_dim>>();
  const QueryTile rows = query_tile(blockIdx.x, tiles_over(shape.query_length, tile), tile);
  const HeadRows<float> value_rows = values_of(operands, shape, rows.head_index);
  const int row = int(threadIdx.x) / tile, column = int(threadIdx.x) % tile;
  const int query = rows.first_query + row;

  float out[columns] = {};
  for (int first_key = 0; first_key < shape.key_length; first_key += tile) {
    const int key = first_key + column;
    const bool exists = query < shape.query_length && key < shape.key_length;
    plan.weights[row * tile + column] =
        exists ? operands.workspace[score_index(shape, rows.head_index, query) + key] : 0.0f;
    copy_rows<threads, tile, head_dim, head_dim>(plan.values, value_rows, first_key);
    __syncthreads();
    for (int k = 0; k < tile; ++k)
      for (int c = 0; c < columns; ++c)
        out[c] += plan.weights[row * tile + k] * plan.values[k * head_dim + column + c * tile];
    __syncthreads();
  }
  if (query >= shape.query_length) return;
  float* const result = out_row(operands, shape, rows.head_index, query);
  for (int c = 0; c < columns; ++c) result[column + c * tile] = out[c];
}

}  // namespace tilefold::cuda::ladder::naive
