// Rung 5, half: rung 4 with 16-bit queries, keys, values and output; float32 everywhere between.
//
// Every element moves as 2 bytes through device memory, L2 and shared memory and is widened beside
// the multiply-add; scores, maxima, sums and O stay float32. No tensor cores: arithmetic runs on
// the units of rung 4 and costs as much, plus the widening. Device memory: half of rung 4's.
//
// Grid: heads * query tiles. Block: 4 warps of 16 query rows each. Lane: 4 rows by every 8th key,
// then 4 rows by D / 8 columns, 8 columns a 16-byte load.
//
// Accumulate::float16 rounds every sum (dot products, l and O) to 10 bits of mantissa after each
// addition, as a half-precision accumulator does. A sum that has reached 2048 then takes no addend
// below 1 any more, so that long rows come out wrong: docs/ladder.md shows how wrong. Never use it.
//
// Shared memory: Q 64 * (D + 8), K 64 * (D + 8) and V 64 * D elements of 2 bytes, P 64 * 68 floats.
// D = 64: 43 KB; D = 128: 67 KB.
#pragma once

#include "cuda/kernels/ladder/rows.cuh"
#include "cuda/tile/element.cuh"

namespace tilefold::cuda::ladder::half {

constexpr int rows = 64, keys = 64, warps = 4, threads = 32 * warps;

enum class Accumulate { float32, float16 };

/// The two 16-bit formats as types.
struct Float16 {
  unsigned short bits;
};
struct Bfloat16 {
  unsigned short bits;
};
__device__ inline float widened(Float16 x) { return element::widen_f16(x.bits); }
__device__ inline float widened(Bfloat16 x) { return element::widen_bf16(x.bits); }
__device__ inline void narrow(float x, Float16& y) { y.bits = element::narrow_f16(x); }
__device__ inline void narrow(float x, Bfloat16& y) { y.bits = element::narrow_bf16(x); }

/// sum + a * b, rounded to what the accumulator holds.
template <Accumulate accumulate> __device__ float add_product(float sum, float a, float b) {
  const float wide = sum + a * b;
  if constexpr (accumulate == Accumulate::float32) return wide;
  Float16 narrowed;
  narrow(wide, narrowed);
  return widened(narrowed);
}

template <class T, int head_dim> struct Plan {
  static constexpr int stride = padded_stride<T, head_dim>;
  static constexpr int weight_stride = keys + 4;
  alignas(16) T queries[rows * stride];
  alignas(16) T keys_tile[keys * stride];
  alignas(16) T values_tile[keys * head_dim];
  alignas(16) float weights[rows * weight_stride];
};

/// Eight elements as float32.
struct Wide {
  float element[8];
};
template <class T> __device__ Wide widened_at(const T* shared) {
  const Pack<T> pack = pack_at(shared);
  Wide wide;
  for (int e = 0; e < 8; ++e) wide.element[e] = widened(pack.element[e]);
  return wide;
}

/// The 16 rows of one warp. A lane holds rows lane / 8 + 4 r, r = 0..3, of the warp's 16.
template <class T, int head_dim, Accumulate accumulate> class WarpRows {
 public:
  using BlockPlan = Plan<T, head_dim>;

  __device__ WarpRows(BlockPlan& plan, const Shape& shape, int first_query)
      : plan_(plan), shape_(shape), first_query_(first_query) {
    for (float& value : max_) value = -score::infinity<float>();
  }

  __device__ void absorb(int first_key) {
    float scores[lane_rows][lane_keys] = {};
    query_key(scores);
    if (first_key + keys > shape_.keys_seen(first_query_)) hide(scores, first_key);
    weigh(scores);
    __syncwarp();
    weights_value();
  }

  /// Divides, once, and rounds, once, and writes the rows that exist.
  __device__ void write(const Operands<T>& operands, int head_index) {
    for (int r = 0; r < lane_rows; ++r) {
      const float normaliser = reciprocal_or_zero(sum_of<8>(sum_[r]));
      const int query = first_query_ + lane_row() + 4 * r;
      if (query >= shape_.query_length) continue;
      T* const result = out_row(operands, shape_, head_index, query) + 8 * lane_column();
      for (int p = 0; p < packs; ++p) {
        Pack<T> pack;
        for (int e = 0; e < 8; ++e) narrow(out_[r][p].element[e] * normaliser, pack.element[e]);
        pack_at(result + 64 * p) = pack;
      }
    }
  }

 private:
  static constexpr int lane_rows = 4, lane_keys = keys / 8, packs = head_dim / 64;

  __device__ void query_key(float (&scores)[lane_rows][lane_keys]) const {
    const T* const queries = plan_.queries + plan_row(0) * BlockPlan::stride;
    const T* const others = plan_.keys_tile + lane_column() * BlockPlan::stride;
#pragma unroll 2
    for (int d = 0; d < head_dim; d += 8) {
      Wide query[lane_rows];
      for (int r = 0; r < lane_rows; ++r)
        query[r] = widened_at(queries + 4 * r * BlockPlan::stride + d);
      for (int k = 0; k < lane_keys; ++k) {
        const Wide key = widened_at(others + 8 * k * BlockPlan::stride + d);
        for (int r = 0; r < lane_rows; ++r)
          for (int e = 0; e < 8; ++e)
            scores[r][k] =
                add_product<accumulate>(scores[r][k], query[r].element[e], key.element[e]);
      }
    }
  }

  /// Only on tiles that some row does not see to the end.
  __device__ void hide(float (&scores)[lane_rows][lane_keys], int first_key) const {
    for (int r = 0; r < lane_rows; ++r) {
      const int keys_seen = shape_.keys_seen(first_query_ + lane_row() + 4 * r);
      for (int k = 0; k < lane_keys; ++k)
        if (first_key + lane_column() + 8 * k >= keys_seen)
          scores[r][k] = -score::infinity<float>();
    }
  }

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
      for (Wide& wide : out_[r])
        for (float& element : wide.element) element *= rescale;
      float* const weights = plan_.weights + plan_row(r) * BlockPlan::weight_stride;
      for (int k = 0; k < lane_keys; ++k) {
        const float weight = score::exp(scores[r][k] - shift);
        sum_[r] = add_product<accumulate>(sum_[r], weight, 1.0f);
        weights[lane_column() + 8 * k] = weight;
      }
    }
  }

  __device__ void weights_value() {
    const T* const values = plan_.values_tile + 8 * lane_column();
    for (int key = 0; key < keys; key += 4) {
      Pack<float> weight[lane_rows];
      for (int r = 0; r < lane_rows; ++r)
        weight[r] = pack_at(plan_.weights + plan_row(r) * BlockPlan::weight_stride + key);
      for (int k = 0; k < 4; ++k)
        for (int p = 0; p < packs; ++p) {
          const Wide value = widened_at(values + (key + k) * head_dim + 64 * p);
          for (int r = 0; r < lane_rows; ++r)
            for (int e = 0; e < 8; ++e)
              out_[r][p].element[e] = add_product<accumulate>(
                  out_[r][p].element[e], weight[r].element[k], value.element[e]);
        }
    }
  }

  static __device__ int lane_row() { return int(threadIdx.x) % 32 / 8; }
  static __device__ int lane_column() { return int(threadIdx.x) % 8; }
  static __device__ int plan_row(int r) { return int(threadIdx.x) / 32 * 16 + lane_row() + 4 * r; }

  BlockPlan& plan_;
  const Shape& shape_;
  int first_query_;                             // of the warp
  float max_[lane_rows], sum_[lane_rows] = {};  // the sum is the lane's own share
  Wide out_[lane_rows][packs] = {};
};

template <class T, int head_dim, Accumulate accumulate>
__global__ void __launch_bounds__(threads, 2) forward(Operands<T> operands, Shape shape) {
  auto& plan = shared_plan<Plan<T, head_dim>>();
  const QueryTile block = query_tile(blockIdx.x, tiles_over(shape.query_length, rows), rows);
  const int last_row = score::smaller(block.first_query + rows, shape.query_length) - 1;
  const int tile_sees = shape.keys_seen(last_row);

  copy_rows<threads, rows, head_dim, Plan<T, head_dim>::stride>(
      plan.queries, queries_of(operands, shape, block.head_index), block.first_query);
  WarpRows<T, head_dim, accumulate> warp_rows(plan, shape,
                                              block.first_query + int(threadIdx.x) / 32 * 16);
  for (int first_key = 0; first_key < tile_sees; first_key += keys) {
    __syncthreads();  // nobody reads the previous keys and values any more
    copy_rows<threads, keys, head_dim, Plan<T, head_dim>::stride>(
        plan.keys_tile, keys_of(operands, shape, block.head_index), first_key);
    copy_rows<threads, keys, head_dim, head_dim>(
        plan.values_tile, values_of(operands, shape, block.head_index), first_key);
    __syncthreads();
    warp_rows.absorb(first_key);
  }
  warp_rows.write(operands, block.head_index);
}

}  // namespace tilefold::cuda::ladder::half
