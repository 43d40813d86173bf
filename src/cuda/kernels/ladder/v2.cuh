// Rung 4, v2: FlashAttention-2's split (Dao 2023). Query rows over the warps, O in registers.
//
//   for each query tile (a block):
//     for each key tile it sees:   S = Q K^T;  online softmax;  O = O * rescale + P V
//     O / l                        one division, at the end; O itself is still rescaled every tile
//
// Grid: heads * query tiles. Block: 4 warps, each with 16 query rows of its own and all keys of the
// tile: maxima and sums stay within 8 neighbouring lanes, nothing is summed across warps, and the
// weights pass through shared memory that only their warp touches. Barriers guard K and V alone.
// Lane: 4 rows by every 8th key of S, then the same 4 rows by D / 8 columns of O, all in registers:
// one 16-byte load of shared memory feeds 10 multiply-adds a lane where rung 3's fed 3.5.
//
// Device memory: Q and O once, K and V once a query tile (mostly out of L2: the tiles of a head run
// side by side). No workspace.
//
// Shared memory, floats, stride = D + 4: Q 64 * stride, K keys * stride, V keys * D, P 64 * (keys +
// 4). 64 keys at D = 64: 67 KB, three blocks on an SM; 32 keys at D = 128: 74.5 KB, two on sm_80,
// three on sm_90.
#pragma once

#include "cuda/kernels/ladder/rows.cuh"

namespace tilefold::cuda::ladder::v2 {

constexpr int rows = 64, warps = 4, threads = 32 * warps;
template <int head_dim> constexpr int keys = 4096 / head_dim;

template <int head_dim> struct Plan {
  static constexpr int stride = padded_stride<float, head_dim>;
  static constexpr int weight_stride = keys<head_dim> + 4;
  alignas(16) float queries[rows * stride];
  alignas(16) float keys_tile[keys<head_dim> * stride];
  alignas(16) float values_tile[keys<head_dim> * head_dim];
  alignas(16) float weights[rows * weight_stride];
};

/// The 16 rows of one warp. A lane holds rows lane / 8 + 4 r, r = 0..3, of the warp's 16.
template <int head_dim> class WarpRows {
 public:
  __device__ WarpRows(Plan<head_dim>& plan, const Shape& shape, int first_query)
      : plan_(plan), shape_(shape), first_query_(first_query) {
    for (float& value : max_) value = -score::infinity<float>();
  }

  __device__ void absorb(int first_key) {
    float scores[lane_rows][lane_keys] = {};
    query_key(scores);
    if (first_key + keys < head_dim >> shape_.keys_seen(first_query_)) hide(scores, first_key);
    weigh(scores);
    __syncwarp();
    weights_value();
  }

  /// Divides, once, and writes the rows that exist.
  __device__ void write(const Operands<float>& operands, int head_index) {
    for (int r = 0; r < lane_rows; ++r) {
      const float normaliser = reciprocal_or_zero(sum_of<8>(sum_[r]));
      const int query = first_query_ + lane_row() + 4 * r;
      if (query >= shape_.query_length) continue;
      float* const result = out_row(operands, shape_, head_index, query) + 4 * lane_column();
      for (int p = 0; p < packs; ++p) pack_at(result + 32 * p) = scaled(out_[r][p], normaliser);
    }
  }

 private:
  static constexpr int lane_rows = 4, lane_keys = keys<head_dim> / 8, packs = head_dim / 32;

  __device__ void query_key(float (&scores)[lane_rows][lane_keys]) const {
    constexpr int stride = Plan<head_dim>::stride;
    const float* const queries = plan_.queries + plan_row(0) * stride;
    const float* const others = plan_.keys_tile + lane_column() * stride;
#pragma unroll 4
    for (int d = 0; d < head_dim; d += 4) {
      Pack<float> query[lane_rows];
      for (int r = 0; r < lane_rows; ++r) query[r] = pack_at(queries + 4 * r * stride + d);
      for (int k = 0; k < lane_keys; ++k) {
        const Pack<float> key = pack_at(others + 8 * k * stride + d);
        for (int r = 0; r < lane_rows; ++r) scores[r][k] = add_dot(scores[r][k], query[r], key);
      }
    }
  }

  /// Only on tiles that some row does not see to the end. The scale is positive: it can wait for
  /// the exponent, and -inf needs none.
  __device__ void hide(float (&scores)[lane_rows][lane_keys], int first_key) const {
    for (int r = 0; r < lane_rows; ++r) {
      const int keys_seen = shape_.keys_seen(first_query_ + lane_row() + 4 * r);
      for (int k = 0; k < lane_keys; ++k)
        if (first_key + lane_column() + 8 * k >= keys_seen)
          scores[r][k] = -score::infinity<float>();
    }
  }

  /// Online softmax: the new maximum, O and the lane's share of the sum rescaled, weights written.
  __device__ void weigh(float (&scores)[lane_rows][lane_keys]) {
    for (int r = 0; r < lane_rows; ++r) {
      float largest = -score::infinity<float>();
      for (float& score : scores[r]) {
        score *= shape_.scale;
        largest = fmaxf(largest, score);
      }
      const float new_max = fmaxf(max_[r], largest_of<8>(largest)), shift = shift_of(new_max);
      const float rescale = score::exp(max_[r] - shift);
      max_[r] = new_max;
      sum_[r] *= rescale;
      for (auto& pack : out_[r]) pack = scaled(pack, rescale);
      float* const weights = plan_.weights + plan_row(r) * Plan<head_dim>::weight_stride;
      for (int k = 0; k < lane_keys; ++k) {
        const float weight = score::exp(scores[r][k] - shift);
        sum_[r] += weight;
        weights[lane_column() + 8 * k] = weight;
      }
    }
  }

  __device__ void weights_value() {
    const float* const values = plan_.values_tile + 4 * lane_column();
#pragma unroll 2
    for (int key = 0; key < keys<head_dim>; key += 4) {
      Pack<float> weight[lane_rows];
      for (int r = 0; r < lane_rows; ++r)
        weight[r] = pack_at(plan_.weights + plan_row(r) * Plan<head_dim>::weight_stride + key);
      for (int k = 0; k < 4; ++k)
        for (int p = 0; p < packs; ++p) {
          const Pack<float> value = pack_at(values + (key + k) * head_dim + 32 * p);
          for (int r = 0; r < lane_rows; ++r) add_product(out_[r][p], weight[r].element[k], value);
        }
    }
  }

  static __device__ int lane_row() { return int(threadIdx.x) % 32 / 8; }
  static __device__ int lane_column() { return int(threadIdx.x) % 8; }
  static __device__ int plan_row(int r) { return int(threadIdx.x) / 32 * 16 + lane_row() + 4 * r; }

  Plan<head_dim>& plan_;
  const Shape& shape_;
  int first_query_;                             // of the warp
  float max_[lane_rows], sum_[lane_rows] = {};  // the sum is the lane's own share
  Pack<float> out_[lane_rows][packs] = {};
};

template <int head_dim> __global__ void __launch_bounds__(threads)
    forward(Operands<float> operands, Shape shape) {
  auto& plan = shared_plan<Plan<head_dim>>();
  const QueryTile block = query_tile(blockIdx.x, tiles_over(shape.query_length, rows), rows);
  const int last_row = score::smaller(block.first_query + rows, shape.query_length) - 1;
  const int tile_sees = shape.keys_seen(last_row);

  copy_rows<threads, rows, head_dim, Plan<head_dim>::stride>(
      plan.queries, queries_of(operands, shape, block.head_index), block.first_query);
  WarpRows<head_dim> warp_rows(plan, shape, block.first_query + int(threadIdx.x) / 32 * 16);
  for (int first_key = 0; first_key < tile_sees; first_key += keys<head_dim>) {
    __syncthreads();  // nobody reads the previous keys and values any more
    copy_rows<threads, keys<head_dim>, head_dim, Plan<head_dim>::stride>(
        plan.keys_tile, keys_of(operands, shape, block.head_index), first_key);
    copy_rows<threads, keys<head_dim>, head_dim, head_dim>(
        plan.values_tile, values_of(operands, shape, block.head_index), first_key);
    __syncthreads();
    warp_rows.absorb(first_key);
  }
  warp_rows.write(operands, block.head_index);
}

}  // namespace tilefold::cuda::ladder::v2
