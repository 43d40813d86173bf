// The softmax of two rows of a thread over key tiles that arrive one by one, split so that the
// output of the tile before may still be in the tensor cores: raise() and weigh() touch only scores
// and sums, the output is rescaled when it has arrived.
//
// A row's weights are exp2((s - top) * c). `top` moves where a weight would be a large share of the
// row's sum (docs/numerics.md). Each of the 4 lanes that share a row judges by its own sum: as long
// as none objects, nothing passes between lanes. Each row decides for itself, so its bits depend on
// no other row.
#pragma once

#include "cuda/tile/online_softmax.cuh"

namespace tilefold::cuda::sm90 {

/// Element i of a thread's scores belongs to row i / 2 % 2 (tile/ptx/wgmma.cuh).
struct Softmax {
  static constexpr float exact_shift = OnlineSoftmax<2>::exact_shift;

  float top[2], sum[2];  // sums of this lane's weights: the quad's 4 are added at the end
  float factor[2];       // where a row of the warp moved: what this tile multiplies the output by
  bool moved;            // any row of the warp, by this tile
  bool plain;            // every row of the warp has a `top`, and one fma serves it

  __device__ __forceinline__ void start() {
#pragma unroll
    for (int r = 0; r < 2; ++r) top[r] = -score::infinity<float>(), sum[r] = 0.0f;
    moved = plain = false;
  }

  /// Of the first tile: there is no sum to compare with, and no output to rescale.
  template <int count> __device__ __forceinline__ void begin(const float (&s)[count], float c) {
    bool simple = true;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = quad_max(lane_top(s, r));
      sum[r] = 0.0f;
      simple &= is_plain(r, c);
    }
    moved = false;
    plain = __ballot_sync(0xffffffffu, !simple) == 0;
  }

  /// Moves `top` where the tile demands it.
  template <int count> __device__ __forceinline__ void raise(const float (&s)[count], float c) {
    float now[2];
    unsigned passed[2];  // lanes of the warp that object to `top`
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      now[r] = lane_top(s, r);
      // (-inf) - (-inf) is NaN, which passes nothing: a row with no visible key stays there.
      passed[r] = __ballot_sync(0xffffffffu, (now[r] - top[r]) * c > lane_slack(sum[r]));
    }
    moved = (passed[0] | passed[1]) != 0;
    if (moved) move(now, passed, c);
  }

  /// Scores become weights.
  template <int count> __device__ __forceinline__ void weigh(float (&s)[count], float c) {
    float shift[2], even[2], odd[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      shift[r] = top[r] * c;
      even[r] = sum[r];
      odd[r] = 0.0f;
    }
    if (!plain) subtract_first(s, shift);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int r = i / 2 % 2;
      s[i] = ptx::exp2(::fmaf(s[i], c, -shift[r]));
      (i % 2 == 0 ? even[r] : odd[r]) += s[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) sum[r] = even[r] + odd[r];
  }

 private:
  /// Two chains: the maximum is bound by latency.
  template <int count>
  static __device__ __forceinline__ float lane_top(const float (&s)[count], int r) {
    float even = s[2 * r], odd = s[2 * r + 1];
#pragma unroll
    for (int i = 4 + 2 * r; i < count; i += 4) {
      even = ::fmaxf(even, s[i]);
      odd = ::fmaxf(odd, s[i + 1]);
    }
    return ::fmaxf(even, odd);
  }
  // A score that passes by more moves `top` however small its weight's share: where one lane has
  // all of a row, a quarter of a large sum would be too much. Normal rows come to 3.6.
  static constexpr float most_slack = 4.0f;
  /// How far a score of this lane's may pass `top`, in the exponent: until its weight would be a
  /// quarter of what the lane has, a sixteenth of the row's sum where its lanes have alike.
  static __device__ __forceinline__ float lane_slack(float lane_sum) {
    return ::fminf(::fmaxf(ptx::log2(lane_sum) - 2.0f, 0.0f), most_slack);
  }
  __device__ __forceinline__ bool is_plain(int r, float c) const {
    return ::fabsf(top[r] * c) < exact_shift;
  }

  __device__ __forceinline__ void move(const float (&now)[2], const unsigned (&passed)[2],
                                       float c) {
    const unsigned quad = 15u << (threadIdx.x & 28u);
    bool simple = true;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float tile_top = quad_max(now[r]);
      const bool moves = (passed[r] & quad) != 0;
      factor[r] = moves ? ptx::exp2((top[r] - tile_top) * c) : 1.0f;
      top[r] = moves ? tile_top : top[r];
      sum[r] *= factor[r];
      simple &= is_plain(r, c);
    }
    plain = __ballot_sync(0xffffffffu, !simple) == 0;
  }

  /// Rows of very large scores take (s - top) * c; the others subtract 0, which changes no bit. A
  /// row with no visible key is shifted by 0: its weights are exp2(-inf) = 0.
  template <int count>
  __device__ __forceinline__ void subtract_first(float (&s)[count], float (&shift)[2]) const {
    float first[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool exact = ::fabsf(shift[r]) < exact_shift;
      first[r] = exact || top[r] == -score::infinity<float>() ? 0.0f : top[r];
      shift[r] = exact ? shift[r] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < count; ++i) s[i] -= first[i / 2 % 2];
  }
};

}  // namespace tilefold::cuda::sm90
