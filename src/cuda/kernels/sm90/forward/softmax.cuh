// The softmax of two rows of a thread over key tiles that arrive one by one, split so that the
// output of the tile before may still be in the tensor cores: raise() and weigh() touch only scores
// and sums, the output is rescaled when it has arrived.
//
// A row's weights are exp2((s - top) * c). `top` moves only when a score passes it by more than 8
// in the exponent, as in tile/online_softmax.cuh: each row decides for itself, so its bits depend
// on no other row.
#pragma once

#include "cuda/tile/online_softmax.cuh"

namespace tilefold::cuda::sm90 {

/// `count` scores of a thread: element i belongs to row i / 2 % 2 (tile/ptx/wgmma.cuh).
template <int count> struct Softmax {
  static constexpr float slack = OnlineSoftmax<2>::slack;
  static constexpr float exact_shift = OnlineSoftmax<2>::exact_shift;

  float top[2], sum[2];  // sums of this lane's weights: the quad's 4 are added at the end
  float factor[2];       // what this tile multiplies the output by
  float most[2];         // the largest score so far, where `top` may lag behind

  __device__ __forceinline__ void start() {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      top[r] = most[r] = -score::infinity<float>(), sum[r] = 0.0f, factor[r] = 1.0f;
  }

  /// Moves `top` where the tile demands it.
  __device__ __forceinline__ void raise(const float (&s)[count], float c) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      // Two chains: the maximum is bound by latency.
      float even = s[2 * r], odd = s[2 * r + 1];
#pragma unroll
      for (int i = 4 + 2 * r; i < count; i += 4) {
        even = ::fmaxf(even, s[i]);
        odd = ::fmaxf(odd, s[i + 1]);
      }
      const float now = quad_max(::fmaxf(even, odd));
      most[r] = ::fmaxf(most[r], now);
      // (-inf) - (-inf) is NaN, which passes nothing: a row with no visible key stays there.
      const bool passed = (now - top[r]) * c > slack;
      factor[r] = passed ? ptx::exp2((top[r] - now) * c) : 1.0f;
      top[r] = passed ? now : top[r];
    }
  }

  /// Scores become weights.
  __device__ __forceinline__ void weigh(float (&s)[count], float c) {
    float shift[2], even[2], odd[2];
    bool exact = true;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      shift[r] = top[r] == -score::infinity<float>() ? 0.0f : top[r] * c;
      exact &= ::fabsf(shift[r]) < exact_shift;
      even[r] = sum[r] * factor[r];
      odd[r] = 0.0f;
    }
    if (!__all_sync(0xffffffffu, exact)) subtract_first(s, shift, c);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int r = i / 2 % 2;
      s[i] = ptx::exp2(::fmaf(s[i], c, -shift[r]));
      (i % 2 == 0 ? even[r] : odd[r]) += s[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) sum[r] = even[r] + odd[r];
  }

  /// What rounding added to the largest weight of a row. A row that one key dominates would else be
  /// off by it: under a maximum that lags, that key's weight is 2^x and not 1. It was rounded
  /// against the last `top`, which has not moved since.
  template <HalfType type> __device__ __forceinline__ float excess(int r, float c) const {
    const float shift = top[r] * c;
    const float weight = ptx::exp2(exponent(most[r], top[r], shift, c));
    return ptx::unpack<type>(ptx::pack<type>(weight, weight)).low - weight;
  }

  /// Whether any row of the warp moved.
  __device__ __forceinline__ bool moved() const {
    return __any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f);
  }

 private:
  /// Rows of very large scores take (s - top) * c; the others what they would have taken anyway.
  static __device__ __forceinline__ float exponent(float s, float top, float shift, float c) {
    return ::fabsf(shift) < exact_shift ? ::fmaf(s, c, -shift) : (s - top) * c;
  }
  __device__ __forceinline__ void subtract_first(float (&s)[count], float (&shift)[2],
                                                 float& c) const {
#pragma unroll
    for (int i = 0; i < count; ++i) s[i] = exponent(s[i], top[i / 2 % 2], shift[i / 2 % 2], c);
    shift[0] = shift[1] = 0.0f;
    c = 1.0f;
  }
};

}  // namespace tilefold::cuda::sm90
