// From a warp's sums to device memory: finished rows, or one part of rows that are split.
#pragma once

#include "cuda/kernels/finish.cuh"
#include "cuda/kernels/sm80/compute.cuh"
#include "cuda/kernels/sm80/rows.cuh"
#include "cuda/tile/element.cuh"
#include "cuda/tile/ptx/tid.cuh"

namespace tilefold::cuda::sm80 {

/// Among the 4 lanes of a quad, word c of lane q becomes word q of lane c: 4-byte pieces of a row
/// become 16 neighbouring bytes a lane.
__device__ __forceinline__ void quad_transpose(unsigned (&word)[4], int lane) {
  constexpr unsigned all = 0xffffffffu;
  const bool odd = lane & 1, high = lane & 2;
  unsigned x = __shfl_xor_sync(all, odd ? word[0] : word[1], 1);
  unsigned y = __shfl_xor_sync(all, odd ? word[2] : word[3], 1);
  word[0] = odd ? x : word[0], word[1] = odd ? word[1] : x;
  word[2] = odd ? y : word[2], word[3] = odd ? word[3] : y;
  x = __shfl_xor_sync(all, high ? word[0] : word[2], 2);
  y = __shfl_xor_sync(all, high ? word[1] : word[3], 2);
  word[0] = high ? x : word[0], word[2] = high ? word[2] : x;
  word[1] = high ? y : word[1], word[3] = high ? word[3] : y;
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
  __device__ __forceinline__ void store(Work& done, float c, float scale) const {
    const bool wide = wide_rows();
#pragma unroll
    for (int r = 0; r < Work::rows; ++r) {
      const int in_tile = first_row_ + 16 * (r / 2) + 8 * (r % 2) + lane_ / 4;
      const fold::Part<float> part = part_of(done, r, c, scale);
      if (work_.splits > 1)
        store_part(done, r, in_tile, part);
      else
        finish(done, r, rows_[in_tile], part, wide);
    }
  }

 private:
  /// Natural units. Weights were taken against the rounded top * c, so the part's maximum is that
  /// too; a sum of NaN keeps the part from looking empty.
  __device__ __forceinline__ fold::Part<float> part_of(const Work& done, int r, float c,
                                                       float scale) const {
    constexpr float ln2 = 0.693147182f;
    const float sum = quad_sum(done.softmax.sum[r]), top = done.softmax.top[r], shift = top * c;
    if (sum != sum) return {sum, sum};
    if (top == -score::infinity<float>()) return fold::Part<float>::empty();
    return {::fabsf(shift) < done.softmax.exact_shift ? shift * ln2 : top * scale, sum};
  }

  __device__ __forceinline__ void store_part(const Work& done, int r, int in_tile,
                                             const fold::Part<float>& part) const {
    if (in_tile >= work_.rows) return;
    const long long row = work_.part * params_.shape.tile_rows + in_tile;
    if (lane_ % 4 == 0) params_.part_max[row] = part.max, params_.part_sum[row] = part.sum;
    float* out = params_.part_out + row * params_.value_dim + 2 * (lane_ % 4);
#pragma unroll
    for (int g = 0; g < config.value_dim / 8; ++g) {
      if (8 * g >= params_.value_dim) break;
      // An empty part is the identity: what hidden NaN values left in its sums must not count.
      out[8 * g] = part.is_empty() ? 0.0f : done.output[r / 2][g][r % 2 * 2];
      out[8 * g + 1] = part.is_empty() ? 0.0f : done.output[r / 2][g][r % 2 * 2 + 1];
    }
  }

  __device__ __forceinline__ void finish(Work& done, int r, const Row& row,
                                         const fold::Part<float>& part, bool wide) const {
    const RowEnd end = end_of_row(params_, sequence_, row.head, part);
#pragma unroll
    for (int g = 0; g < config.value_dim / 8; ++g) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& o = done.output[r / 2][g][r % 2 * 2 + e];
        // Without a visible key the factor alone counts: 0 * NaN of a hidden value would not be 0.
        o = part.is_empty() ? end.factor : o * end.factor;
      }
    }
    if (wide)
      store_wide(done, r, row);
    else
      store_narrow(done, r, row);
    if (lane_ % 4 == 0 && row.query >= 0)
      store_lse(params_, sequence_, work_.sequence, {row.query, row.head}, end.lse);
  }

  /// Whether rows of the output start on 16 bytes and are of 16-bit elements.
  __device__ __forceinline__ bool wide_rows() const {
    const Strides& s = params_.out_strides;
    const long long bytes =
        reinterpret_cast<long long>(params_.out) | 2 * s.outer | 2 * s.row | 2 * s.head;
    return params_.out_type != ElementType::f32 && (bytes & 15) == 0;
  }

  /// All lanes take part in the transpose; rows that only fill the tile store nothing.
  __device__ __forceinline__ void store_wide(const Work& done, int r, const Row& row) const {
    unsigned short* out = static_cast<unsigned short*>(params_.out) +
                          out_offset(params_, sequence_, work_.sequence, {row.query, row.head});
#pragma unroll
    for (int g = 0; g < config.value_dim / 8; g += 4) {
      unsigned word[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float low = done.output[r / 2][g + c][r % 2 * 2];
        const float high = done.output[r / 2][g + c][r % 2 * 2 + 1];
        word[c] = params_.out_type == ElementType::bf16 ? ptx::pack<HalfType::bf16>(low, high)
                                                        : ptx::pack<HalfType::f16>(low, high);
      }
      quad_transpose(word, lane_);
      const int column = 8 * (g + lane_ % 4);
      if (row.query >= 0 && column < params_.value_dim)
        *reinterpret_cast<uint4*>(out + column) = uint4{word[0], word[1], word[2], word[3]};
    }
  }

  __device__ __forceinline__ void store_narrow(const Work& done, int r, const Row& row) const {
    if (row.query < 0) return;
    const long long first =
        out_offset(params_, sequence_, work_.sequence, {row.query, row.head}) + 2 * (lane_ % 4);
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
