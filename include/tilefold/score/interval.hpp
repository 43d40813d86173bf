// A whole tile at once: three-valued answers over intervals of positions.
//
//   Truth t = causal.keep(Interval(128, 191), Interval(0, 63), place);   // t.yes(): no mask code
//   runs
//
// A formula read with Interval answers for every (query, key) pair of a tile: yes (all kept), no
// (none kept: the tile is never loaded) or maybe. Each operation contains every element's value, so
// the answer is right even where it is not sharp (a variable used twice widens it).
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::score {

/// Kleene's three values, ordered no < maybe < yes.
struct Truth {
  enum Value : signed char { none = 0, some = 1, all = 2 };
  Value value;

  Truth() = default;
  TILEFOLD_HD constexpr Truth(Value v) : value(v) {}
  TILEFOLD_HD constexpr Truth(bool sure) : value(sure ? all : none) {}
  TILEFOLD_HD static constexpr Truth of(bool sure, bool possible) {
    return sure ? all : possible ? some : none;
  }
  TILEFOLD_HD constexpr bool yes() const { return value == all; }
  TILEFOLD_HD constexpr bool no() const { return value == none; }
  TILEFOLD_HD constexpr bool maybe() const { return value == some; }

  TILEFOLD_HD friend constexpr Truth operator&&(Truth a, Truth b) {
    return a.value < b.value ? a : b;
  }
  TILEFOLD_HD friend constexpr Truth operator||(Truth a, Truth b) {
    return a.value > b.value ? a : b;
  }
  TILEFOLD_HD friend constexpr Truth operator!(Truth a) { return Value(2 - a.value); }
  TILEFOLD_HD friend constexpr bool operator==(Truth a, Truth b) { return a.value == b.value; }
};

/// Results past the range of int are held at its ends: an interval never wraps.
TILEFOLD_HD constexpr int saturated(long long x) {
  constexpr long long low = -2147483647LL - 1, high = 2147483647LL;
  return int(x < low ? low : x > high ? high : x);
}

/// All integers from low to high, both included.
struct Interval {
  int low, high;

  Interval() = default;
  TILEFOLD_HD constexpr Interval(int only) : low(only), high(only) {}
  TILEFOLD_HD constexpr Interval(int l, int h) : low(l), high(h) {}
  TILEFOLD_HD constexpr bool single() const { return low == high; }
  TILEFOLD_HD constexpr bool contains(int x) const { return low <= x && x <= high; }

  TILEFOLD_HD friend constexpr Interval operator+(Interval a, Interval b) {
    return {saturated(0LL + a.low + b.low), saturated(0LL + a.high + b.high)};
  }
  TILEFOLD_HD friend constexpr Interval operator-(Interval a, Interval b) {
    return {saturated(0LL + a.low - b.high), saturated(0LL + a.high - b.low)};
  }
  TILEFOLD_HD friend constexpr Interval operator-(Interval a) { return Interval(0) - a; }
  TILEFOLD_HD friend constexpr Interval operator*(Interval a, Interval b) {
    const long long w = 1LL * a.low * b.low, x = 1LL * a.low * b.high;
    const long long y = 1LL * a.high * b.low, z = 1LL * a.high * b.high;
    return {saturated(smaller(smaller(w, x), smaller(y, z))),
            saturated(larger(larger(w, x), larger(y, z)))};
  }

  TILEFOLD_HD friend constexpr Truth operator<=(Interval a, Interval b) {
    return Truth::of(a.high <= b.low, a.low <= b.high);
  }
  TILEFOLD_HD friend constexpr Truth operator<(Interval a, Interval b) {
    return Truth::of(a.high < b.low, a.low < b.high);
  }
  TILEFOLD_HD friend constexpr Truth operator>=(Interval a, Interval b) { return b <= a; }
  TILEFOLD_HD friend constexpr Truth operator>(Interval a, Interval b) { return b < a; }
  TILEFOLD_HD friend constexpr Truth operator==(Interval a, Interval b) {
    return Truth::of(a.single() && b.single() && a.low == b.low,
                     a.low <= b.high && b.low <= a.high);
  }
  TILEFOLD_HD friend constexpr Truth operator!=(Interval a, Interval b) { return !(a == b); }
};

TILEFOLD_HD constexpr Interval smaller(Interval a, Interval b) {
  return {smaller(a.low, b.low), smaller(a.high, b.high)};
}
TILEFOLD_HD constexpr Interval larger(Interval a, Interval b) {
  return {larger(a.low, b.low), larger(a.high, b.high)};
}
TILEFOLD_HD constexpr Interval abs(Interval a) {
  const int low = a.low > 0 ? a.low : a.high < 0 ? saturated(-1LL * a.high) : 0;
  return {low, larger(saturated(-1LL * a.low), a.high)};
}
/// By a constant: the divisor of a formula is not an interval. `b` is not 0.
TILEFOLD_HD constexpr Interval floor_div(Interval a, int b) {
  return b > 0 ? Interval{floor_div(a.low, b), floor_div(a.high, b)}
               : Interval{floor_div(a.high, b), floor_div(a.low, b)};
}
TILEFOLD_HD constexpr Interval floor_mod(Interval a, int b) {
  if (floor_div(a.low, b) == floor_div(a.high, b))  // one period: the remainder rises with a
    return {floor_mod(a.low, b), floor_mod(a.high, b)};
  return b > 0 ? Interval{0, b - 1} : Interval{b + 1, 0};
}

}  // namespace tilefold::score
