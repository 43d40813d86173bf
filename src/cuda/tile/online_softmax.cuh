// Softmax over keys that arrive tile by tile, in the registers of one warp.
//
// A thread holds `rows` rows of scores, two a 16-row block; the 4 lanes of a quad share each row. A
// row's weights are exp2((s - top) * c), c = scale * log2(e), where `top` is a maximum that may lag
// behind: a score that passes it moves it only where its weight would be a large share of the row's
// sum (slack_of). A weight that counts is thus 1 and loses nothing when it is rounded to 16 bits
// (docs/numerics.md); one that does not count spares the output a rescaling. Each row decides for
// itself, so its bits depend on no other row.
#pragma once

#include "cuda/tile/ptx/approximate.cuh"
#include "cuda/tile/ptx/mma.cuh"
#include "cuda/tile/quad.cuh"
#include "tilefold/score/portable.hpp"

namespace tilefold::cuda {

/// How scores become exponents this tile: exp2(fma(s, factor, -shift)).
template <int rows> struct Exponent {
  float factor;
  float shift[rows];
};

template <int rows> struct OnlineSoftmax {
  // How far a score may pass `top`, in the exponent, however small its share: 2^8 is far from the
  // range of any format here.
  static constexpr float most_slack = 8.0f;
  // Beyond it the rounding of top * c shows: the largest weight is 2^(top * c - rounded) and not 1.
  // At 128 it is off by at most 2^-17 * ln 2 = 5e-6; at 2^20, by 4 %.
  static constexpr float exact_shift = 128.0f;

  float top[rows];  // starts at -inf: a row whose scores are all -1e30 is an ordinary row
  float sum[rows];  // of this lane's weights: the quad's 4 are added at the end

  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int r = 0; r < rows; ++r) top[r] = -score::infinity<float>(), sum[r] = 0.0f;
  }

  /// How far a score may pass `top`, in the exponent, where the row's weights so far add up to
  /// `sum`: until its own weight would be a sixteenth of that.
  static __device__ __forceinline__ float slack_of(float sum) {
    return ::fminf(::fmaxf(ptx::log2(sum) - 4.0f, 0.0f), most_slack);
  }

  /// Before a tile's weights: moves `top` where the tile demands it and rescales sums and output.
  template <int blocks, int groups, int width>
  __device__ __forceinline__ Exponent<rows> settle(float (&scores)[blocks][groups][4],
                                                   float (&output)[blocks][width][4], float c) {
    float tile_top[rows];
    float slack[rows];
    // A lane's own sum allows no more than the row's: what passes by the row's passes by this.
#pragma unroll
    for (int r = 0; r < rows; ++r) slack[r] = slack_of(sum[r]);
    if (__any_sync(0xffffffffu, passes(scores, tile_top, c, slack))) {
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const float factor = raise(r, quad_max(tile_top[r]), c, slack_of(quad_sum(sum[r])));
#pragma unroll
        for (int g = 0; g < width; ++g) {
          output[r / 2][g][r % 2 * 2] *= factor;
          output[r / 2][g][r % 2 * 2 + 1] *= factor;
        }
      }
    }
    return exponent(scores, c);
  }

  /// This lane's maxima of a tile, and whether one of them passes `top` too far.
  template <int blocks, int groups>
  __device__ __forceinline__ bool passes(const float (&scores)[blocks][groups][4],
                                         float (&tile_top)[rows], float c,
                                         const float (&slack)[rows]) const {
    bool passed = false;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      tile_top[r] = ::fmaxf(scores[r / 2][0][r % 2 * 2], scores[r / 2][0][r % 2 * 2 + 1]);
#pragma unroll
      for (int g = 1; g < groups; ++g)
        tile_top[r] = ::fmaxf(
            tile_top[r], ::fmaxf(scores[r / 2][g][r % 2 * 2], scores[r / 2][g][r % 2 * 2 + 1]));
      // (-inf) - (-inf) is NaN, which passes nothing: a row with no visible key so far stays there.
      passed |= (tile_top[r] - top[r]) * c > slack[r];
    }
    return passed;
  }

  /// Moves row r's `top` to the tile's maximum if that passes it by more than `slack`, rescales the
  /// sum and returns what the output must be multiplied by.
  __device__ __forceinline__ float raise(int r, float tile_top, float c, float slack) {
    const bool passed = (tile_top - top[r]) * c > slack;
    const float factor = passed ? ptx::exp2((top[r] - tile_top) * c) : 1.0f;
    top[r] = passed ? tile_top : top[r];
    sum[r] *= factor;
    return factor;
  }

  /// The exponents of all rows by one fma; `exact` tells whether none has scores too large for it.
  __device__ __forceinline__ Exponent<rows> simple_exponent(float c, bool& exact) const {
    Exponent<rows> exponent{c, {}};
    exact = true;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      exponent.shift[r] = shift_of(top[r], c);
      exact &= ::fabsf(exponent.shift[r]) < exact_shift;
    }
    return exponent;
  }

  /// The exponents of a tile whose `top` stands; scores too large for one fma change place.
  template <int blocks, int groups>
  __device__ __forceinline__ Exponent<rows> exponent(float (&scores)[blocks][groups][4], float c) {
    bool exact;
    Exponent<rows> exponent = simple_exponent(c, exact);
    if (!__all_sync(0xffffffffu, exact)) subtract_first(scores, exponent);
    return exponent;
  }

 private:
  /// A row with no visible key is shifted by 0: its weights are exp2(-inf) = 0.
  static __device__ __forceinline__ float shift_of(float top, float c) {
    return top == -score::infinity<float>() ? 0.0f : top * c;
  }

  /// Rows of very large scores take (s - top) * c; the others subtract 0, which changes no bit.
  template <int blocks, int groups>
  __device__ __forceinline__ void subtract_first(float (&scores)[blocks][groups][4],
                                                 Exponent<rows>& exponent) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const bool exact = ::fabsf(exponent.shift[r]) < exact_shift;
      const float first = exact ? 0.0f : top[r];
      exponent.shift[r] = exact ? exponent.shift[r] : 0.0f;
#pragma unroll
      for (int g = 0; g < groups; ++g) {
#pragma unroll
        for (int e = 0; e < 2; ++e) scores[r / 2][g][r % 2 * 2 + e] -= first;
      }
    }
  }
};

}  // namespace tilefold::cuda
