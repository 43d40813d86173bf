// Positions as real numbers, for score changes such as ALiBi.
//
//   return score + S(slope) * real<S>(k - q);            // S is float, double or Dual of one
#pragma once

#include "tilefold/score/dual.hpp"
#include "tilefold/score/position.hpp"

namespace tilefold::score {

template <class S> TILEFOLD_HD constexpr S real(int x) { return S(typename Plain<S>::type(x)); }

/// A fragment's position keeps its two parts: times a slope, the product of the base leaves the
/// loop.
template <class F> struct Linear {
  F base, offset;
  TILEFOLD_HD friend constexpr F operator*(F a, Linear b) { return a * b.base + a * b.offset; }
  TILEFOLD_HD friend constexpr F operator*(Linear b, F a) { return a * b.base + a * b.offset; }
};
template <class S> TILEFOLD_HD constexpr Linear<S> real(Position x) {
  return {real<S>(x.base), real<S>(x.offset)};
}

}  // namespace tilefold::score
