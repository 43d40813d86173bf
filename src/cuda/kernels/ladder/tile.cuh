// Rung 3, tile: the scores never leave the chip. The chapter's teaching kernel, mended.
//
//   for each query tile (a block):  for each key tile it sees:  S = Q K^T;  online softmax;  O += P
//   V
//
// Grid: heads * query tiles, so every query tile is a block of its own (rung 2 had one block a
// head). Block: 64 threads, a thread a query row. It owns its row of Q, S and O in shared memory:
// no row is ever shared, only the two copies of K and V need barriers.
//
// Mended: any length, head count and batch (rows past the end are zeros, their keys hidden, their
// output not written); causal by positions in the row; the loop ends at the last key that the tile
// sees; empty rows; each exponential computed once and kept; threads read 32 different rows at one
// column, so rows are padded; a thread keeps 32 outputs in registers while it passes over the keys.
//
// Shared memory, floats, stride = D + 4: Q and O 64 * stride each, K and V 64 * D each (all threads
// read one key at a time: a broadcast needs no padding), S 64 * 65. D = 64: 82.3 KB; D = 128: 146.3
// KB. Above 48 KB it must be dynamic, with the attribute raised (launch/ladder/launch.cuh).
#pragma once

#include "cuda/kernels/ladder/rows.cuh"

namespace tilefold::cuda::ladder::tile {

constexpr int rows = 64, keys = 64, threads = rows;

template <int head_dim> struct Plan {
  static constexpr int stride = padded_stride<float, head_dim>;
  static constexpr int score_stride = keys + 1;
  alignas(16) float queries[rows * stride];
  alignas(16) float out[rows * stride];
  alignas(16) float keys_tile[keys * head_dim];
  alignas(16) float values_tile[keys * head_dim];
  float scores[rows * score_stride];
};

/// The thread's scores of the tile's keys, hidden ones -inf; returns the largest.
template <int head_dim>
__device__ float query_key(Plan<head_dim>& plan, const Shape& shape, int first_key, int keys_seen) {
  constexpr int at_once = 8;
  const float* const query = plan.queries + threadIdx.x * Plan<head_dim>::stride;
  float* const scores = plan.scores + threadIdx.x * Plan<head_dim>::score_stride;
  float largest = -score::infinity<float>();
  for (int key = 0; key < keys; key += at_once) {
    float dot[at_once] = {};
    for (int d = 0; d < head_dim; d += 4) {
      const Pack<float> q = pack_at(query + d);
      for (int k = 0; k < at_once; ++k)
        dot[k] = add_dot(dot[k], q, pack_at(plan.keys_tile + (key + k) * head_dim + d));
    }
    for (int k = 0; k < at_once; ++k) {
      const bool seen = first_key + key + k < keys_seen;
      scores[key + k] = seen ? dot[k] * shape.scale : -score::infinity<float>();
      largest = fmaxf(largest, scores[key + k]);
    }
  }
  return largest;
}

/// Scores become weights in place: the one place that calls exp. Returns their sum.
template <int head_dim> __device__ float weigh(Plan<head_dim>& plan, float shift) {
  float* const scores = plan.scores + threadIdx.x * Plan<head_dim>::score_stride;
  float sum = 0;
  for (int key = 0; key < keys; ++key) {
    scores[key] = score::exp(scores[key] - shift);
    sum += scores[key];
  }
  return sum;
}

/// O = O * rescale + P V, 32 columns at a time: each weight is read once for 32 of them.
template <int head_dim> __device__ void weights_value(Plan<head_dim>& plan, float rescale) {
  constexpr int packs = 8;
  const float* const weights = plan.scores + threadIdx.x * Plan<head_dim>::score_stride;
  for (int column = 0; column < head_dim; column += 4 * packs) {
    float* const out = plan.out + threadIdx.x * Plan<head_dim>::stride + column;
    Pack<float> sum[packs];
    for (int p = 0; p < packs; ++p) sum[p] = scaled(pack_at(out + 4 * p), rescale);
    for (int key = 0; key < keys; ++key) {
      const float* const value = plan.values_tile + key * head_dim + column;
      for (int p = 0; p < packs; ++p) add_product(sum[p], weights[key], pack_at(value + 4 * p));
    }
    for (int p = 0; p < packs; ++p) pack_at(out + 4 * p) = sum[p];
  }
}

template <int head_dim> __global__ void __launch_bounds__(threads, 2)
    forward(Operands<float> operands, Shape shape) {
  auto& plan = shared_plan<Plan<head_dim>>();
  const QueryTile block = query_tile(blockIdx.x, tiles_over(shape.query_length, rows), rows);
  const int query = block.first_query + int(threadIdx.x);
  const int keys_seen = shape.keys_seen(query);
  const int last_row = score::smaller(block.first_query + rows, shape.query_length) - 1;
  const int tile_sees = shape.keys_seen(last_row);

  copy_rows<threads, rows, head_dim, Plan<head_dim>::stride>(
      plan.queries, queries_of(operands, shape, block.head_index), block.first_query);
  float* const out = plan.out + threadIdx.x * Plan<head_dim>::stride;
  for (int d = 0; d < head_dim; d += 4) pack_at(out + d) = {};
  float row_max = -score::infinity<float>(), row_sum = 0;

  for (int first_key = 0; first_key < tile_sees; first_key += keys) {
    __syncthreads();  // nobody reads the previous keys and values any more
    copy_rows<threads, keys, head_dim, head_dim>(
        plan.keys_tile, keys_of(operands, shape, block.head_index), first_key);
    copy_rows<threads, keys, head_dim, head_dim>(
        plan.values_tile, values_of(operands, shape, block.head_index), first_key);
    __syncthreads();

    const float largest = query_key<head_dim>(plan, shape, first_key, keys_seen);
    const float new_max = fmaxf(row_max, largest);
    const float rescale = score::exp(row_max - shift_of(new_max));
    row_sum = row_sum * rescale + weigh<head_dim>(plan, shift_of(new_max));
    weights_value<head_dim>(plan, rescale);
    row_max = new_max;
  }

  if (query >= shape.query_length) return;
  float* const result = out_row(operands, shape, block.head_index, query);
  const float normaliser = reciprocal_or_zero(row_sum);
  for (int d = 0; d < head_dim; d += 4) pack_at(result + d) = scaled(pack_at(out + d), normaliser);
}

}  // namespace tilefold::cuda::ladder::tile
