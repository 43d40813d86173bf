// From a warp's sums to device memory: finished rows, or one part of rows that are split.
#pragma once

#include "cuda/kernels/finish.cuh"
#include "cuda/kernels/sm80/compute.cuh"
#include "cuda/kernels/sm80/rows.cuh"
#include "cuda/tile/element.cuh"
#include "cuda/tile/ptx/tid.cuh"
#include "cuda/tile/quad.cuh"

namespace tilefold::cuda::sm80 {

/// Whether rows of the output start on 16 bytes and are of the inputs' type.
template <HalfType input> __device__ __forceinline__ bool wide_rows(const ForwardParams& params) {
  const Strides& s = params.out_strides;
  const long long bytes =
      reinterpret_cast<long long>(params.out) | 2 * s.outer | 2 * s.row | 2 * s.head;
  constexpr ElementType type = input == HalfType::bf16 ? ElementType::bf16 : ElementType::f16;
  return params.out_type == type && (bytes & 15) == 0;
}

/// A row's sum and maximum in natural units. Weights were taken against the rounded top * c, so the
/// part's maximum is that too; a sum of NaN keeps the part from looking empty.
__device__ __forceinline__ fold::Part<float> natural_part(float sum, float top, float c,
                                                          float scale, float exact_shift) {
  constexpr float ln2 = 0.693147182f;
  const float shift = top * c;
  if (sum != sum) return {sum, sum};
  if (top == -score::infinity<float>()) return fold::Part<float>::empty();
  return {::fabsf(shift) < exact_shift ? shift * ln2 : top * scale, sum};
}

template <class Chosen> class Epilogue {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  using Work = Computer<Chosen>;

  __device__ __forceinline__ Epilogue(const ForwardParams& params, const ForwardWork& work,
                                      const Row* rows, int first_row)
      : params_(params),
        sequence_(params.sequences[work.sequence]),
        work_(work),
        rows_(rows),
        first_row_(first_row),
        lane_(ptx::thread_again() % 32) {}

  /// c and scale as the softmax had them: weights are exp2((s - top) * c), a score is s * scale.
  /// The 4 lanes of a quad hold the same rows; lane q closes the q-th and tells the others, so that
  /// the logarithm, the division and the addresses stand in the code once, not once a row.
  __device__ __forceinline__ void store(Work& done, float c, float scale) const {
    const int r = lane_ % 4 % Work::rows;
    const int in_tile = first_row_ + 16 * (r / 2) + 8 * (r % 2) + lane_ / 4;
    const fold::Part<float> part = part_of(done, r, c, scale);
    const unsigned empty = __ballot_sync(all, part.is_empty());
    if (empty != 0) clear_empty(done, empty);
    if (work_.splits > 1)
      store_part(done, r, in_tile, part);
    else
      finish(done, r, rows_[in_tile], part);
  }

 private:
  static constexpr unsigned all = 0xffffffffu;

  /// The lane of this quad that closes row r.
  __device__ __forceinline__ int closer(int r) const { return lane_ / 4 * 4 + r; }

  /// What hidden NaN values left in the sums of a row without a visible key must not count.
  __device__ __forceinline__ void clear_empty(Work& done, unsigned empty) const {
#pragma unroll
    for (int r = 0; r < Work::rows; ++r)
      if (empty >> closer(r) & 1u) {
#pragma unroll
        for (int g = 0; g < config.value_dim / 8; ++g)
          done.output[r / 2][g][r % 2 * 2] = done.output[r / 2][g][r % 2 * 2 + 1] = 0.0f;
      }
  }

  __device__ __forceinline__ fold::Part<float> part_of(const Work& done, int r, float c,
                                                       float scale) const {
    float sum = 0.0f, top = 0.0f;
#pragma unroll
    for (int i = 0; i < Work::rows; ++i) {
      const float whole = quad_sum(done.softmax.sum[i]);
      sum = i == r ? whole : sum;
      top = i == r ? done.softmax.top[i] : top;
    }
    return natural_part(sum, top, c, scale, done.softmax.exact_shift);
  }

  __device__ __forceinline__ void store_part(const Work& done, int r, int in_tile,
                                             const fold::Part<float>& part) const {
    const long long first = work_.part * params_.shape.tile_rows;
    if (lane_ % 4 < Work::rows && in_tile < work_.rows)
      params_.part_max[first + in_tile] = part.max, params_.part_sum[first + in_tile] = part.sum;
#pragma unroll
    for (int i = 0; i < Work::rows; ++i) {
      const int row = first_row_ + 16 * (i / 2) + 8 * (i % 2) + lane_ / 4;
      if (row >= work_.rows) continue;
      float* out = params_.part_out + (first + row) * params_.value_dim + 2 * (lane_ % 4);
#pragma unroll
      for (int g = 0; g < config.value_dim / 8; ++g) {
        if (8 * g >= params_.value_dim) break;
        out[8 * g] = done.output[i / 2][g][i % 2 * 2];
        out[8 * g + 1] = done.output[i / 2][g][i % 2 * 2 + 1];
      }
    }
  }

  /// Rows that only fill the tile store nothing.
  __device__ __forceinline__ void finish(Work& done, int r, const Row& row,
                                         const fold::Part<float>& part) const {
    const RowEnd end = end_of_row(params_, sequence_, row.head, part);
    const bool exists = row.query >= 0;
    if (lane_ % 4 < Work::rows && exists)
      store_lse(params_, sequence_, work_.sequence, {row.query, row.head}, end.lse);
    const unsigned present = __ballot_sync(all, exists);
    const long long place =
        out_offset(params_, sequence_, work_.sequence, {exists ? row.query : 0, row.head});
    // Two loops: what stores by element is long and must not lie between the rows of the other.
    if (wide_rows<config.type>(params_)) {
#pragma unroll
      for (int i = 0; i < Work::rows; ++i) {
        divide(done, i, end.factor);
        store_wide(done, i, __shfl_sync(all, place, closer(i)), present >> closer(i) & 1u);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Work::rows; ++i) {
        divide(done, i, end.factor);
        const long long first = __shfl_sync(all, place, closer(i));
        if (present >> closer(i) & 1u) store_narrow(done, i, first + 2 * (lane_ % 4));
      }
    }
  }

  __device__ __forceinline__ void divide(Work& done, int r, float factor) const {
    factor = __shfl_sync(all, factor, closer(r));
#pragma unroll
    for (int g = 0; g < config.value_dim / 8; ++g)
      done.output[r / 2][g][r % 2 * 2] *= factor, done.output[r / 2][g][r % 2 * 2 + 1] *= factor;
  }

  /// All lanes take part in the transpose.
  __device__ __forceinline__ void store_wide(const Work& done, int r, long long first,
                                             bool stored) const {
    unsigned short* out = static_cast<unsigned short*>(params_.out) + first;
#pragma unroll
    for (int g = 0; g < config.value_dim / 8; g += 4) {
      unsigned word[4];
#pragma unroll
      for (int c = 0; c < 4; ++c)
        word[c] = ptx::pack<config.type>(done.output[r / 2][g + c][r % 2 * 2],
                                         done.output[r / 2][g + c][r % 2 * 2 + 1]);
      quad_transpose(word, lane_);
      const int column = 8 * (g + lane_ % 4);
      if (stored && column < params_.value_dim)
        *reinterpret_cast<uint4*>(out + column) = uint4{word[0], word[1], word[2], word[3]};
    }
  }

  __device__ __forceinline__ void store_narrow(const Work& done, int r, long long first) const {
#pragma unroll
    for (int g = 0; g < config.value_dim / 8; ++g) {
      if (8 * g >= params_.value_dim) break;
#pragma unroll
      for (int e = 0; e < 2; ++e)
        store_element(params_.out, params_.out_type, first + 8 * g + e,
                      done.output[r / 2][g][r % 2 * 2 + e]);
    }
  }

  const ForwardParams& params_;
  const SequenceInfo& sequence_;
  const ForwardWork& work_;
  const Row* rows_;
  int first_row_, lane_;
};

}  // namespace tilefold::cuda::sm80
