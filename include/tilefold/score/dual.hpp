// A score and its derivative, carried together: a score change read with Dual yields its backward.
//
//   Dual<double> s = softcap.change(Dual<double>::variable(x), q, k, place);
//   s.value;   // the changed score
//   s.slope;   // d(changed score) / d(score), which multiplies dS
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::score {

/// value + slope * epsilon, epsilon^2 = 0. F is float or double.
template <class F> struct Dual {
  F value, slope;

  Dual() = default;
  TILEFOLD_HD constexpr Dual(F constant) : value(constant), slope(0) {}
  TILEFOLD_HD constexpr Dual(F v, F s) : value(v), slope(s) {}
  TILEFOLD_HD static constexpr Dual variable(F v) { return {v, F(1)}; }

  TILEFOLD_HD friend constexpr Dual operator+(Dual a, Dual b) {
    return {a.value + b.value, a.slope + b.slope};
  }
  TILEFOLD_HD friend constexpr Dual operator-(Dual a, Dual b) {
    return {a.value - b.value, a.slope - b.slope};
  }
  TILEFOLD_HD friend constexpr Dual operator-(Dual a) { return {-a.value, -a.slope}; }
  TILEFOLD_HD friend constexpr Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, a.slope * b.value + a.value * b.slope};
  }
  TILEFOLD_HD friend constexpr Dual operator/(Dual a, Dual b) {
    const F quotient = a.value / b.value;
    return {quotient, (a.slope - quotient * b.slope) / b.value};
  }
  TILEFOLD_HD friend constexpr bool operator<(Dual a, Dual b) { return a.value < b.value; }
  TILEFOLD_HD friend constexpr bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
  TILEFOLD_HD friend constexpr bool operator>(Dual a, Dual b) { return a.value > b.value; }
  TILEFOLD_HD friend constexpr bool operator>=(Dual a, Dual b) { return a.value >= b.value; }
};

template <class F> TILEFOLD_HD Dual<F> tanh(Dual<F> x) {
  const F t = tanh(x.value);
  return {t, (F(1) - t * t) * x.slope};
}
template <class F> TILEFOLD_HD Dual<F> exp(Dual<F> x) {
  const F e = exp(x.value);
  return {e, e * x.slope};
}
template <class F> TILEFOLD_HD Dual<F> log(Dual<F> x) { return {log(x.value), x.slope / x.value}; }
template <class F> TILEFOLD_HD constexpr Dual<F> abs(Dual<F> x) { return x.value < F(0) ? -x : x; }

/// The number type inside a score: float of float, double of Dual<double>.
template <class S> struct Plain { using type = S; };
template <class F> struct Plain<Dual<F>> { using type = F; };

}  // namespace tilefold::score
