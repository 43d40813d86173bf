// From a warpgroup's sums to device memory: finished rows, or one part of rows that are split.
#pragma once

#include "cuda/kernels/finish.cuh"
#include "cuda/kernels/sm90/forward/shared_plan.cuh"
#include "cuda/kernels/sm90/forward/softmax.cuh"
#include "cuda/tile/matrix_descriptor.cuh"
#include "cuda/tile/ptx/approximate.cuh"
#include "cuda/tile/ptx/barrier.cuh"
#include "cuda/tile/ptx/cp_async_bulk_tensor.cuh"
#include "cuda/tile/ptx/fence.cuh"
#include "cuda/tile/ptx/stmatrix.cuh"
#include "cuda/tile/quad.cuh"

namespace tilefold::cuda::sm90 {

/// Where output tiles pass through shared memory on their way.
struct Staging {
  const TensorMap* map;  // of the output; null: they do not
  bool aligned;          // whether rows of the output start on 16 bytes; else plain kernels only
  unsigned tile;         // shared-memory address
  int barrier;           // of the warpgroup
};

template <class Chosen> class Epilogue {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  using Output = float[config.value_dim / 2];

  __device__ __forceinline__ Epilogue(const ForwardParams& params, const Assignment& assignment,
                                      int first_row)
      : params_(params),
        assignment_(assignment),
        sequence_(assignment.sequence),
        work_(assignment.work),
        first_row_(first_row),
        lane_(int(threadIdx.x % 32)) {}

  /// c and scale as the softmax had them: weights are exp2((s - top) * c), a score is s * scale.
  __device__ __forceinline__ void store(Output& output, const Softmax& softmax, float c,
                                        float scale) const {
    const bool wide = wide_rows();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int in_tile = first_row_ + 8 * r + lane_ / 4;
      const fold::Part<float> part = part_of(softmax, r, c, scale);
      if (work_.splits > 1)
        store_part(output, r, in_tile, part);
      else
        finish(output, r, in_tile, part, wide);
    }
  }

  /// The same where OutputPath allows it: straight-line code, both rows side by side. It stands
  /// between two query tiles, where the tensor cores have nothing to do. `staging` is the
  /// warpgroup's own Q, which nobody reads any more: rows that are all inside leave from there by
  /// TMA, while the next query tile begins.
  __device__ __forceinline__ void store_fast(Output& output, const Softmax& softmax, float c,
                                             float scale, const Staging& staging) const {
    float factor[2], lse[2], sums[2];
    bool empty = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = quad_sum(softmax.sum[r]), top = softmax.top[r], shift = top * c;
      sums[r] = sum;
      factor[r] = ptx::reciprocal(sum);
      lse[r] = (::fabsf(shift) < Softmax::exact_shift ? shift * ln2 : top * scale) +
               ln2 * ptx::log2(sum);
      empty |= top == -score::infinity<float>() && sum == sum;
    }
    if (__any_sync(0xffffffffu, empty)) close_empty_rows(output, softmax, sums, factor, lse);
    if (staging.map != nullptr) ptx::barrier_sync(staging.barrier, 128);  // all have left Q
    if (staging.map != nullptr && first_row_ + 16 <= work_.rows)
      store_box(output, factor, staging);
    else
      store_rows(output, factor, staging.aligned);
    store_lse_of_rows(lse);
  }

 private:
  static constexpr float ln2 = 0.693147182f;

  /// Rows without a visible key: 0, or NaN in a broken sequence, whatever hidden values left in
  /// their sums. `sums`: of whole rows, since a NaN key is one lane's of a quad.
  __device__ __forceinline__ void close_empty_rows(Output& output, const Softmax& softmax,
                                                   const float (&sums)[2], float (&factor)[2],
                                                   float (&lse)[2]) const {
    const float nan = __builtin_bit_cast(float, 0x7fc00000u);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (softmax.top[r] != -score::infinity<float>() || sums[r] != sums[r]) continue;
      factor[r] = 1.0f;
      lse[r] = sequence_.broken ? nan : -score::infinity<float>();
#pragma unroll
      for (int i = 0; i < config.value_dim / 2; ++i)
        if (i / 2 % 2 == r) output[i] = sequence_.broken ? nan : 0.0f;
    }
  }

  __device__ __forceinline__ void store_lse_of_rows(const float (&lse)[2]) const {
    float* to = assignment_.place.lse;
    if (to == nullptr || lane_ % 4 != 0) return;
    const int row = first_row_ + lane_ / 4;
    to += 1LL * row * assignment_.place.lse_row;
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (row + 8 * r < work_.rows) to[8LL * r * assignment_.place.lse_row] = lse[r];
  }

  __device__ __forceinline__ unsigned word(const Output& output, int group, int r,
                                           float factor) const {
    return ptx::pack<config.type>(output[4 * group + 2 * r] * factor,
                                  output[4 * group + 2 * r + 1] * factor);
  }

  __device__ __forceinline__ void store_rows(const Output& output, const float (&factor)[2],
                                             bool aligned) const {
    const OutputPlace& place = assignment_.place;
    const int row = first_row_ + lane_ / 4, column = 8 * (lane_ % 4);
    unsigned short* out = place.out + 1LL * row * place.out_row + column;
    const int columns = params_.value_dim - column, rows = work_.rows - row;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int g = 0; g < config.value_dim / 8; g += 4) {
        unsigned words[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) words[k] = word(output, g + k, r, factor[r]);
        quad_transpose(words, lane_);
        if (8 * r < rows && 8 * g < columns) store_words(out + 8 * g, words, aligned);
      }
      out += 8LL * place.out_row;
    }
  }

  /// 8 elements. Only plain kernels come here with others than aligned ones.
  static __device__ __forceinline__ void store_words(unsigned short* to, const unsigned (&words)[4],
                                                     bool aligned) {
    if (!config.plain || aligned) {
      *reinterpret_cast<uint4*>(to) = uint4{words[0], words[1], words[2], words[3]};
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) to[i] = static_cast<unsigned short>(words[i / 2] >> (i % 2 * 16));
    }
  }

  /// 16 rows of this warp into its part of the staging tile, as TMA's swizzle wants them, and from
  /// there to memory.
  __device__ __forceinline__ void store_box(const Output& output, const float (&factor)[2],
                                            const Staging& staging) const {
    const int in_tile = first_row_ % config.warpgroup_rows;
    const int row = in_tile + lane_ % 16, half = lane_ / 16;  // matrices: row halves, then columns
#pragma unroll
    for (int g = 0; g < config.value_dim / 8; g += 2) {
      const unsigned words[4] = {word(output, g, 0, factor[0]), word(output, g, 1, factor[1]),
                                 word(output, g + 1, 0, factor[0]),
                                 word(output, g + 1, 1, factor[1])};
      ptx::stmatrix_x4(
          staging.tile + unsigned(swizzled_byte(row, 8 * (g + half), config.warpgroup_rows)),
          words);
    }
    ptx::fence_proxy_async_shared();
    __syncwarp();
    if (lane_ != 0) return;
    const OutputPlace& to = assignment_.place;
#pragma unroll
    for (int group = 0; group < config.value_groups(); ++group)
      ptx::store_box<4>(
          staging.map, {64 * group, to.row + first_row_, to.head, to.sequence},
          staging.tile + unsigned(swizzled_byte(in_tile, 64 * group, config.warpgroup_rows)));
    ptx::cp_async_bulk_commit();
  }

  /// Natural units. Weights were taken against the rounded top * c, so the part's maximum is that
  /// too; a sum of NaN keeps the part from looking empty.
  static __device__ __forceinline__ fold::Part<float> part_of(const Softmax& softmax, int r,
                                                              float c, float scale) {
    const float sum = quad_sum(softmax.sum[r]), top = softmax.top[r], shift = top * c;
    if (sum != sum) return {sum, sum};
    if (top == -score::infinity<float>()) return fold::Part<float>::empty();
    return {::fabsf(shift) < Softmax::exact_shift ? shift * ln2 : top * scale, sum};
  }

  __device__ __forceinline__ void store_part(const Output& output, int r, int in_tile,
                                             const fold::Part<float>& part) const {
    if (in_tile >= work_.rows) return;
    const long long row = work_.part * params_.shape.tile_rows + in_tile;
    if (lane_ % 4 == 0) params_.part_max[row] = part.max, params_.part_sum[row] = part.sum;
    float* out = params_.part_out + row * params_.value_dim + 2 * (lane_ % 4);
#pragma unroll
    for (int g = 0; g < config.value_dim / 8; ++g) {
      if (8 * g >= params_.value_dim) break;
      // An empty part is the identity: what hidden NaN values left in its sums must not count.
      out[8 * g] = part.is_empty() ? 0.0f : output[4 * g + 2 * r];
      out[8 * g + 1] = part.is_empty() ? 0.0f : output[4 * g + 2 * r + 1];
    }
  }

  __device__ __forceinline__ RowEnd end_of(int head, const fold::Part<float>& part) const {
    if (params_.sinks != nullptr || sequence_.broken || part.is_empty())
      return end_of_row(params_, sequence_, head, {part.max, part.sum});
    // As store_fast() does: the bits of a row do not depend on the output's layout.
    return {ptx::reciprocal(part.sum), part.max + ln2 * ptx::log2(part.sum)};
  }

  __device__ __forceinline__ void finish(const Output& output, int r, int in_tile,
                                         const fold::Part<float>& part, bool wide) const {
    const bool inside = in_tile < work_.rows;
    const long long packed = work_.first_row + (inside ? in_tile : 0);
    const QueryPlace place = params_.pack == 1
                                 ? QueryPlace{int(packed), work_.kv_head}
                                 : query_of(params_, sequence_, work_.kv_head, packed);
    const RowEnd end = end_of(place.head, part);
    // Without a visible key the factor alone counts: 0 * NaN of a hidden value would not be 0.
    const bool empty = part.is_empty();
    const long long at = out_offset(params_, sequence_, work_.sequence, place);
    const RowPlan row{at, empty, inside};
    if (wide)
      store_wide(output, r, end.factor, row);
    else if (inside && params_.out_type == ElementType::f32)
      store_narrow<ElementType::f32>(output, r, end.factor, row);
    else if (inside && params_.out_type == ElementType::f16)
      store_narrow<ElementType::f16>(output, r, end.factor, row);
    else if (inside)
      store_narrow<ElementType::bf16>(output, r, end.factor, row);
    if (lane_ % 4 == 0 && inside) store_lse(params_, sequence_, work_.sequence, place, end.lse);
  }

  struct RowPlan {
    long long at;  // of the row in the output, in elements
    bool empty, inside;
  };

  /// Whether rows of the output start on 16 bytes and are of 16-bit elements.
  __device__ __forceinline__ bool wide_rows() const {
    const Strides& s = params_.out_strides;
    const long long bytes =
        reinterpret_cast<long long>(params_.out) | 2 * s.outer | 2 * s.row | 2 * s.head;
    return params_.out_type != ElementType::f32 && (bytes & 15) == 0;
  }

  /// All lanes take part in the transpose; rows that only fill the tile store nothing.
  __device__ __forceinline__ void store_wide(const Output& output, int r, float factor,
                                             const RowPlan& row) const {
    unsigned short* out = static_cast<unsigned short*>(params_.out) + row.at;
    const bool bf16 = params_.out_type == ElementType::bf16;
#pragma unroll
    for (int g = 0; g < config.value_dim / 8; g += 4) {
      unsigned word[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float low = row.empty ? factor : output[4 * (g + c) + 2 * r] * factor;
        const float high = row.empty ? factor : output[4 * (g + c) + 2 * r + 1] * factor;
        word[c] = bf16 ? ptx::pack<HalfType::bf16>(low, high) : ptx::pack<HalfType::f16>(low, high);
      }
      quad_transpose(word, lane_);
      const int column = 8 * (g + lane_ % 4);
      if (row.inside && column < params_.value_dim)
        *reinterpret_cast<uint4*>(out + column) = uint4{word[0], word[1], word[2], word[3]};
    }
  }

  template <ElementType type>
  __device__ __forceinline__ void store_narrow(const Output& output, int r, float factor,
                                               const RowPlan& row) const {
    const long long first = row.at + 2 * (lane_ % 4);
#pragma unroll
    for (int g = 0; g < config.value_dim / 8; ++g) {
      if (8 * g >= params_.value_dim) break;
#pragma unroll
      for (int e = 0; e < 2; ++e)
        store_element(params_.out, type, first + 8 * g + e,
                      row.empty ? factor : output[4 * g + 2 * r + e] * factor);
    }
  }

  const ForwardParams& params_;
  const Assignment& assignment_;
  const SequenceInfo& sequence_;
  const ForwardWork& work_;
  int first_row_, lane_;
};

}  // namespace tilefold::cuda::sm90
