// Reals of a whole tile: what Interval is to integers, for the real numbers inside a mask.
//
//   Truth near = Span{0.5f, 2.0f} < Span(3.0f);   // all
//
// Elements are rounded to float32 at every operation, and not alike on every backend (fused
// products, other libraries' exp): each result here is widened by far more than that, so that an
// answer which is sure holds wherever the element is computed.
#pragma once

#include "tilefold/score/interval.hpp"

namespace tilefold::score {

/// All float32 from low to high, both included; `nan` where an element may be NaN as well.
struct Span {
  float low, high;
  bool nan;

  Span() = default;
  TILEFOLD_HD constexpr Span(float only) : low(only), high(only), nan(only != only) {}
  TILEFOLD_HD constexpr Span(float l, float h, bool n = false) : low(l), high(h), nan(n) {}

  TILEFOLD_HD static constexpr Span anything() {
    return {-infinity<float>(), infinity<float>(), true};
  }
  TILEFOLD_HD constexpr bool contains(float x) const {
    return x != x ? nan : low <= x && x <= high;
  }
  TILEFOLD_HD constexpr bool may_be_infinite() const {
    return low == -infinity<float>() || high == infinity<float>();
  }
  /// Bounds that came out NaN themselves know nothing.
  TILEFOLD_HD constexpr Span known() const {
    return low != low || high != high || low > high ? anything() : *this;
  }
  /// By 2^-18 of its ends and by the least normal number: a unit in the last place is 2^-23, and
  /// no exp, log or tanh of a backend is 8 of them off.
  TILEFOLD_HD constexpr Span widened() const {
    const float part = 1.0f / 262144, least = 1.17549435e-38f;
    const float down = (low < 0 ? -low : low) * part + least;
    const float up = (high < 0 ? -high : high) * part + least;
    // An infinite end stays, and infinity - infinity is not asked.
    return Span{low == -infinity<float>() || low == infinity<float>() ? low : low - down,
                high == -infinity<float>() || high == infinity<float>() ? high : high + up, nan}
        .known();
  }
  TILEFOLD_HD static constexpr Span around(float a, float b, float c, float d, bool nan) {
    return Span{smaller(smaller(a, b), smaller(c, d)), larger(larger(a, b), larger(c, d)), nan}
        .widened();
  }

  TILEFOLD_HD friend constexpr Span operator+(Span a, Span b) {
    const float most = infinity<float>();
    const bool opposed = (a.high == most && b.low == -most) || (a.low == -most && b.high == most);
    if (opposed) return anything();
    return Span{a.low + b.low, a.high + b.high, a.nan || b.nan}.widened();
  }
  TILEFOLD_HD friend constexpr Span operator-(Span a) { return {-a.high, -a.low, a.nan}; }
  TILEFOLD_HD friend constexpr Span operator-(Span a, Span b) { return a + -b; }
  TILEFOLD_HD friend constexpr Span operator*(Span a, Span b) {
    const bool a_zero = a.low <= 0 && a.high >= 0, b_zero = b.low <= 0 && b.high >= 0;
    if ((a_zero && b.may_be_infinite()) || (b_zero && a.may_be_infinite())) return anything();
    return around(a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high, a.nan || b.nan);
  }
  TILEFOLD_HD friend constexpr Span operator/(Span a, Span b) {
    const bool zero = b.low <= 0 && b.high >= 0;
    if (zero || (a.may_be_infinite() && b.may_be_infinite())) return anything();
    return around(a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high, a.nan || b.nan);
  }

  TILEFOLD_HD friend constexpr Truth operator<(Span a, Span b) {
    return Truth::of(a.high < b.low && !a.nan && !b.nan, a.low < b.high);
  }
  TILEFOLD_HD friend constexpr Truth operator<=(Span a, Span b) {
    return Truth::of(a.high <= b.low && !a.nan && !b.nan, a.low <= b.high);
  }
  TILEFOLD_HD friend constexpr Truth operator==(Span a, Span b) {
    const bool one = a.low == a.high && b.low == b.high && a.low == b.low;
    return Truth::of(one && !a.nan && !b.nan, a.low <= b.high && b.low <= a.high);
  }
};

/// Everything that either holds.
TILEFOLD_HD constexpr Span hull(Span a, Span b) {
  return {smaller(a.low, b.low), larger(a.high, b.high), a.nan || b.nan};
}
TILEFOLD_HD constexpr Interval hull(Interval a, Interval b) {
  return {smaller(a.low, b.low), larger(a.high, b.high)};
}
TILEFOLD_HD constexpr Truth hull(Truth a, Truth b) { return a == b ? a : Truth(Truth::some); }

// The element rule is `b < a ? b : a`: beside a NaN either operand may come out.
TILEFOLD_HD constexpr Span smaller(Span a, Span b) {
  if (a.nan || b.nan) return hull(a, b);
  return {smaller(a.low, b.low), smaller(a.high, b.high)};
}
TILEFOLD_HD constexpr Span larger(Span a, Span b) {
  if (a.nan || b.nan) return hull(a, b);
  return {larger(a.low, b.low), larger(a.high, b.high)};
}
TILEFOLD_HD constexpr Span abs(Span a) {
  if (a.low >= 0) return a;
  if (a.high <= 0) return -a;
  return {0.0f, larger(-a.low, a.high), a.nan};
}
TILEFOLD_HD Span floor(Span a) { return {floor(a.low), floor(a.high), a.nan}; }
TILEFOLD_HD Span exp(Span a) {
  const Span e = Span{exp(a.low), exp(a.high), a.nan}.widened();
  return {larger(e.low, 0.0f), e.high, e.nan};
}
TILEFOLD_HD Span log(Span a) {
  if (a.high < 0) return Span::anything();
  const float low = a.low <= 0 ? -infinity<float>() : log(a.low);
  return Span{low, log(a.high), a.nan || a.low < 0}.widened();
}
TILEFOLD_HD Span tanh(Span a) {
  const Span t = Span{tanh(a.low), tanh(a.high), a.nan}.widened();
  return {larger(t.low, -1.0f), smaller(t.high, 1.0f), t.nan};
}

}  // namespace tilefold::score
