// The softmax of two rows of a thread over key tiles that arrive one by one, split so that the
// output of the tile before may still be in the tensor cores: raise() and weigh() touch only scores
// and sums, the output is rescaled when it has arrived.
//
// A row's weights are exp2((s - top) * c). `top` moves where a weight would be a large share of the
// row's sum, as in tile/online_softmax.cuh: each row decides for itself, so its bits depend on no
// other row.
#pragma once

#include "cuda/tile/online_softmax.cuh"

namespace tilefold::cuda::sm90 {

/// Element i of a thread's scores belongs to row i / 2 % 2 (tile/ptx/wgmma.cuh).
struct Softmax {
  static constexpr float exact_shift = OnlineSoftmax<2>::exact_shift;

  float top[2], sum[2];  // sums of this lane's weights: the quad's 4 are added at the end
  float factor[2];       // what this tile multiplies the output by
  float slack[2];        // how far a score may pass `top`, by the sum when that last moved

  __device__ __forceinline__ void start() {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      top[r] = -score::infinity<float>(), sum[r] = slack[r] = 0.0f, factor[r] = 1.0f;
  }

  /// Moves `top` where the tile demands it.
  template <int count> __device__ __forceinline__ void raise(const float (&s)[count], float c) {
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
      // (-inf) - (-inf) is NaN, which passes nothing: a row with no visible key stays there.
      const bool passed = (now - top[r]) * c > slack[r];
      factor[r] = passed ? ptx::exp2((top[r] - now) * c) : 1.0f;
      top[r] = passed ? now : top[r];
    }
  }

  /// Scores become weights.
  template <int count> __device__ __forceinline__ void weigh(float (&s)[count], float c) {
    float shift[2], even[2], odd[2];
    bool exact = true;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      shift[r] = top[r] == -score::infinity<float>() ? 0.0f : top[r] * c;
      exact &= ::fabsf(shift[r]) < exact_shift;
      even[r] = sum[r] * factor[r];
      odd[r] = 0.0f;
    }
    if (!__all_sync(0xffffffffu, exact)) subtract_first(s, shift);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int r = i / 2 % 2;
      s[i] = ptx::exp2(::fmaf(s[i], c, -shift[r]));
      (i % 2 == 0 ? even[r] : odd[r]) += s[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) sum[r] = even[r] + odd[r];
  }

  /// Whether any row of the warp moved.
  __device__ __forceinline__ bool moved() const {
    return __any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f);
  }

  /// Of rows that moved, when the tile has been weighed. All lanes call it.
  __device__ __forceinline__ void renew_slack() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float row = quad_sum(sum[r]);
      if (factor[r] != 1.0f) slack[r] = OnlineSoftmax<2>::slack_of(row);
    }
  }

 private:
  /// Rows of very large scores take (s - top) * c; the others subtract 0, which changes no bit.
  template <int count>
  __device__ __forceinline__ void subtract_first(float (&s)[count], float (&shift)[2]) const {
    float first[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool exact = ::fabsf(shift[r]) < exact_shift;
      first[r] = exact ? 0.0f : top[r];
      shift[r] = exact ? shift[r] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < count; ++i) s[i] -= first[i / 2 % 2];
  }
};

}  // namespace tilefold::cuda::sm90
