// Rung 2, v1: FlashAttention-1 as published (Dao et al. 2022, algorithm 1). The scores stay on the
// chip; O, m and l do not.
//
//   O = 0, l = 0, m = -inf, in device memory
//   for each key tile:             K and V are read once
//     for each query tile:         Q, O, m and l are read again, O, m and l written again
//       S = Q K^T;  m', l' and P = exp(S - m') of this tile alone
//       O = (l e^(m - m_new) O + e^(m' - m_new) P V) / l_new       normalised at every tile
//
// Grid: a block a head, so batch * heads blocks whatever the length: 16 at one sequence of 16
// heads. Block: 4 warps, which split the *keys* of a tile. Each warp has a maximum, a sum and a
// product P V over its own keys only; the block adds the four up through shared memory, three
// barriers a tile.
//
// Device memory: with T key tiles, 2 * Sk * D + T * Sq * (3 * D + 4) floats a head. Workspace: m
// and l, 2 floats a row. O lives in the output, which is why the rung has to be float32.
//
// Shared memory, floats, stride = D + 4: Q 64 * stride, K keys * stride, V keys * D, P 64 * (keys +
// 4), partial sums 4 * 64 * 36, row statistics 11 * 64. 64 keys at D = 64: 105.8 KB; 32 keys at
// D = 128: 113.3 KB.
#pragma once

#include "cuda/kernels/ladder/rows.cuh"

namespace tilefold::cuda::ladder::v1 {

constexpr int rows = 64, warps = 4, threads = 32 * warps, columns_at_once = 32;
template <int head_dim> constexpr int keys = 4096 / head_dim;

template <int head_dim> struct Plan {
  static constexpr int stride = padded_stride<float, head_dim>;
  static constexpr int weight_stride = keys<head_dim> + 4;
  static constexpr int partial_stride = columns_at_once + 4;
  alignas(16) float queries[rows * stride];
  alignas(16) float keys_tile[keys<head_dim> * stride];
  alignas(16) float values_tile[keys<head_dim> * head_dim];
  alignas(16) float weights[rows * weight_stride];
  alignas(16) float partial[warps][rows * partial_stride];
  float warp_max[warps][rows], warp_sum[warps][rows];
  float old_factor[rows], new_factor[rows];  // of O and of P V, 1 / l_new included
  float tile_max[rows];
};

/// m and l of one head's rows in device memory.
struct RowState {
  float* max;
  float* sum;
};
__device__ inline RowState state_of(float* workspace, const Shape& shape, int head_index) {
  const long long rows_in_all = (long long)shape.heads_in_all() * shape.query_length;
  float* const max = workspace + (long long)head_index * shape.query_length;
  return {max, max + rows_in_all};
}

/// One block at work on one head.
template <int head_dim> class Head {
 public:
  __device__ Head(Plan<head_dim>& plan, const Operands<float>& operands, const Shape& shape)
      : plan_(plan),
        operands_(operands),
        shape_(shape),
        head_(int(blockIdx.x)),
        state_(state_of(operands.workspace, shape, head_)) {}

  __device__ void run() {
    start();
    for (int first_key = 0; first_key < shape_.key_length; first_key += keys<head_dim>) {
      __syncthreads();
      copy_rows<threads, keys<head_dim>, head_dim, Plan<head_dim>::stride>(
          plan_.keys_tile, keys_of(operands_, shape_, head_), first_key);
      copy_rows<threads, keys<head_dim>, head_dim, head_dim>(
          plan_.values_tile, values_of(operands_, shape_, head_), first_key);
      // Query tiles none of whose rows sees the tile's first key see none of its keys.
      const int first_tile = shape_.first_query_seeing(first_key) / rows;
      for (int query = first_tile * rows; query < shape_.query_length; query += rows)
        visit(query, first_key);
    }
  }

 private:
  static constexpr int warp_keys = keys<head_dim> / warps;
  static constexpr int lane_rows = rows / 8, lane_keys = warp_keys / 4;

  __device__ void start() {
    for (int i = int(threadIdx.x); i < shape_.query_length * head_dim / 4; i += threads)
      pack_at(out_row(operands_, shape_, head_, i / (head_dim / 4)) + i % (head_dim / 4) * 4) = {};
    for (int i = int(threadIdx.x); i < shape_.query_length; i += threads) {
      state_.max[i] = -score::infinity<float>();
      state_.sum[i] = 0;
    }
  }

  __device__ void visit(int first_query, int first_key) {
    __syncthreads();  // the last visit's tiles are read, and its m and l are written
    copy_rows<threads, rows, head_dim, Plan<head_dim>::stride>(
        plan_.queries, queries_of(operands_, shape_, head_), first_query);
    __syncthreads();
    float scores[lane_rows][lane_keys];
    query_key(scores, first_query, first_key);
    weigh(scores);
    __syncthreads();
    if (threadIdx.x < rows) update_state(first_query + int(threadIdx.x));
    for (int column = 0; column < head_dim; column += columns_at_once) {
      weights_value(column);
      __syncthreads();
      add_to_output(first_query, column);
      __syncthreads();
    }
  }

  /// The warp's scores: 64 rows by its own keys, rows on 8 lanes, keys on 4; and its rows' maxima.
  __device__ void query_key(float (&scores)[lane_rows][lane_keys], int first_query, int first_key) {
    constexpr int stride = Plan<head_dim>::stride;
    for (auto& row : scores)
      for (float& score : row) score = 0;
    const float* const queries = plan_.queries + lane_row() * stride;
    const float* const others = plan_.keys_tile + (warp() * warp_keys + lane_key()) * stride;
    for (int d = 0; d < head_dim; d += 4) {
      Pack<float> key[lane_keys];
      for (int k = 0; k < lane_keys; ++k) key[k] = pack_at(others + 4 * k * stride + d);
      for (int r = 0; r < lane_rows; ++r) {
        const Pack<float> query = pack_at(queries + 8 * r * stride + d);
        for (int k = 0; k < lane_keys; ++k) scores[r][k] = add_dot(scores[r][k], query, key[k]);
      }
    }
    for (int r = 0; r < lane_rows; ++r) {
      const int row = lane_row() + 8 * r, keys_seen = shape_.keys_seen(first_query + row);
      float largest = -score::infinity<float>();
      for (int k = 0; k < lane_keys; ++k) {
        const int key = first_key + warp() * warp_keys + lane_key() + 4 * k;
        scores[r][k] = key < keys_seen ? scores[r][k] * shape_.scale : -score::infinity<float>();
        largest = fmaxf(largest, scores[r][k]);
      }
      largest = largest_of<4>(largest);
      if (lane_key() == 0) plan_.warp_max[warp()][row] = largest;
    }
  }

  /// P = exp(S - m'), m' the largest of the four warps' maxima; and the warp's share of l'.
  __device__ void weigh(const float (&scores)[lane_rows][lane_keys]) {
    __syncthreads();
    for (int r = 0; r < lane_rows; ++r) {
      const int row = lane_row() + 8 * r;
      float largest = plan_.warp_max[0][row];
      for (int w = 1; w < warps; ++w) largest = fmaxf(largest, plan_.warp_max[w][row]);
      float sum = 0;
      for (int k = 0; k < lane_keys; ++k) {
        const float weight = score::exp(scores[r][k] - shift_of(largest));
        plan_.weights[row * Plan<head_dim>::weight_stride + warp() * warp_keys + lane_key() +
                      4 * k] = weight;
        sum += weight;
      }
      sum = sum_of<4>(sum);
      if (lane_key() != 0) continue;
      plan_.warp_sum[warp()][row] = sum;
      if (warp() == 0) plan_.tile_max[row] = largest;
    }
  }

  /// m and l of one row, and what O and P V are multiplied by: divided by l_new here and now.
  __device__ void update_state(int query) {
    const int row = int(threadIdx.x);
    if (query >= shape_.query_length) return;
    const float old_max = state_.max[query], old_sum = state_.sum[query];
    const float new_max = fmaxf(old_max, plan_.tile_max[row]), shift = shift_of(new_max);
    float tile_sum = 0;
    for (int w = 0; w < warps; ++w) tile_sum += plan_.warp_sum[w][row];
    const float kept = old_sum * score::exp(old_max - shift);
    const float joining = score::exp(plan_.tile_max[row] - shift);
    const float new_sum = kept + tile_sum * joining;
    plan_.old_factor[row] = kept * reciprocal_or_zero(new_sum);
    plan_.new_factor[row] = joining * reciprocal_or_zero(new_sum);
    state_.max[query] = new_max;
    state_.sum[query] = new_sum;
  }

  /// The warp's own part of P V, 32 columns of it: all rows, its keys. Rows on 4 lanes, columns
  /// on 8.
  __device__ void weights_value(int first_column) {
    constexpr int rows_each = rows / 4;
    const int row = lane() / 8, column = lane() % 8 * 4;
    Pack<float> sum[rows_each] = {};
    const int warp_key = warp() * warp_keys;
    for (int key = warp_key; key < warp_key + warp_keys; ++key) {
      const Pack<float> value = pack_at(plan_.values_tile + key * head_dim + first_column + column);
      for (int r = 0; r < rows_each; ++r)
        add_product(sum[r], plan_.weights[(row + 4 * r) * Plan<head_dim>::weight_stride + key],
                    value);
    }
    for (int r = 0; r < rows_each; ++r)
      pack_at(plan_.partial[warp()] + (row + 4 * r) * Plan<head_dim>::partial_stride + column) =
          sum[r];
  }

  /// The four parts become one and join what device memory holds.
  __device__ void add_to_output(int first_query, int first_column) {
    for (int i = int(threadIdx.x); i < rows * columns_at_once / 4; i += threads) {
      const int row = i / (columns_at_once / 4), column = i % (columns_at_once / 4) * 4;
      if (first_query + row >= shape_.query_length) continue;
      Pack<float> sum = {};
      for (const auto& part : plan_.partial)
        add_product(sum, plan_.new_factor[row],
                    pack_at(part + row * Plan<head_dim>::partial_stride + column));
      float* const out =
          out_row(operands_, shape_, head_, first_query + row) + first_column + column;
      add_product(sum, plan_.old_factor[row], pack_at(out));
      pack_at(out) = sum;
    }
  }

  static __device__ int warp() { return int(threadIdx.x) / 32; }
  static __device__ int lane() { return int(threadIdx.x) % 32; }
  static __device__ int lane_row() { return lane() / 4; }
  static __device__ int lane_key() { return lane() % 4; }

  Plan<head_dim>& plan_;
  const Operands<float>& operands_;
  const Shape& shape_;
  int head_;
  RowState state_;
};

template <int head_dim> __global__ void __launch_bounds__(threads)
    forward(Operands<float> operands, Shape shape) {
  Head<head_dim>(shared_plan<Plan<head_dim>>(), operands, shape).run();
}

}  // namespace tilefold::cuda::ladder::v1
