// exp and tanh of a vector of lanes, for every Highway target. Included once per target.
//
// exp: x = n ln 2 + f with |f| <= ln 2 / 2; a polynomial gives exp(f), and 2^n is built by a shift.
// n + bias is read from the low mantissa bits of x log2 e + 1.5 * 2^m, so that n = -bias (all of
// x <= about -88.02 in f32, -709.1 in f64) makes the exponent field 0: the result is exactly 0, no
// denormal is made.
#if defined(TILEFOLD_CPU_EXPONENTIAL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEFOLD_CPU_EXPONENTIAL_INL_H
#undef TILEFOLD_CPU_EXPONENTIAL_INL_H
#else
#define TILEFOLD_CPU_EXPONENTIAL_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace tilefold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// max(low, x) and min(high, x) that keep a NaN in x: x86 returns the second operand of an
/// unordered pair, Arm a NaN; the emulated targets promise nothing.
template <class D, class V = hn::Vec<D>> HWY_INLINE V AtLeast(D d, hn::TFromD<D> low, V x) {
  const V bound = hn::Set(d, low);
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#else
  return hn::Max(bound, x);
#endif
}
template <class D, class V = hn::Vec<D>> HWY_INLINE V AtMost(D d, hn::TFromD<D> high, V x) {
  const V bound = hn::Set(d, high);
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::Gt(x, bound), bound, x);
#else
  return hn::Min(bound, x);
#endif
}

// Polynomials for exp(f) - 1 - f over f^2, f in [-ln 2 / 2, ln 2 / 2]. f32: interpolated at
// Chebyshev nodes, relative error of exp 1e-8 before rounding. f64: Taylor, the next term is below
// 2e-17.
template <class V, class D> HWY_INLINE V ExpTail(D d, V f, float) {
  V p = hn::Set(d, 0.0013926177052780986f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.00836317427456379f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.041666556149721146f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.16666577756404877f));
  return hn::MulAdd(p, f, hn::Set(d, 0.5f));
}
template <class V, class D> HWY_INLINE V ExpTail(D d, V f, double) {
  V p = hn::Set(d, 1.0 / 6227020800.0);
  for (const double factorial : {479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0,
                                 720.0, 120.0, 24.0, 6.0, 2.0})
    p = hn::MulAdd(p, f, hn::Set(d, 1.0 / factorial));
  return p;
}

template <class F> struct ExpConstants;
template <> struct ExpConstants<float> {
  static constexpr float lowest = -88.02f, log2e = 1.44269504088896341f;
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  static constexpr float magic = 12582912.0f + 127.0f;  // 1.5 * 2^23 + bias
  static constexpr int mantissa_bits = 23;
};
template <> struct ExpConstants<double> {
  static constexpr double lowest = -709.1, log2e = 1.44269504088896340736;
  static constexpr double ln2_high = 6.93145751953125e-1, ln2_low = 1.42860682030941723212e-6;
  static constexpr double magic = 6755399441055744.0 + 1023.0;  // 1.5 * 2^52 + bias
  static constexpr int mantissa_bits = 52;
};

/// exp(x) for x <= 88 (f32) or x <= 709 (f64), -inf included. exp(0) is exactly 1.
template <class D, class V = hn::Vec<D>> HWY_INLINE V Exp(D d, V x) {
  using F = hn::TFromD<D>;
  using C = ExpConstants<F>;
  const hn::RebindToUnsigned<D> du;
  x = AtLeast(d, C::lowest, x);
  const V magic = hn::Set(d, C::magic);
  const V shifted = hn::MulAdd(x, hn::Set(d, C::log2e), magic);
  const V n = hn::Sub(shifted, magic);
  V f = hn::NegMulAdd(n, hn::Set(d, C::ln2_high), x);
  f = hn::NegMulAdd(n, hn::Set(d, C::ln2_low), f);
  const V power = hn::BitCast(d, hn::ShiftLeft<C::mantissa_bits>(hn::BitCast(du, shifted)));
  const V one = hn::Set(d, F(1));
  const V p = hn::MulAdd(hn::MulAdd(ExpTail<V>(d, f, F()), f, one), f, one);
  return hn::Mul(p, power);
}

/// tanh(x) in f32, relative error below 1e-6; tanh(+-inf) = +-1, NaN stays NaN.
/// Near 0 an odd polynomial keeps relative accuracy; elsewhere 1 - 2 / (exp(2|x|) + 1).
template <class D, class V = hn::Vec<D>> HWY_INLINE V Tanh(D d, V x, float) {
  const V size = hn::Abs(x);
  const V square = hn::Mul(x, x);
  V p = hn::Set(d, -0.005923726130276918f);
  p = hn::MulAdd(p, square, hn::Set(d, 0.020873460918664932f));
  p = hn::MulAdd(p, square, hn::Set(d, -0.05382375791668892f));
  p = hn::MulAdd(p, square, hn::Set(d, 0.13332583010196686f));
  p = hn::MulAdd(p, square, hn::Set(d, -0.333333283662796f));
  const V near = hn::MulAdd(hn::Mul(p, square), x, x);
  const V one = hn::Set(d, 1.0f);
  const V twice = AtMost(d, 40.0f, hn::Add(size, size));  // 1 - 2 exp(-40) rounds to 1
  const V far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(Exp(d, twice), one)));
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.65f)), near, hn::CopySign(far, x));
}
/// tanh(x) in f64, by the C library.
template <class D, class V = hn::Vec<D>> HWY_INLINE V Tanh(D d, V x, double) {
  alignas(64) double lane[hn::MaxLanes(D())];
  hn::Store(x, d, lane);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lane[i] = std::tanh(lane[i]);
  return hn::Load(d, lane);
}

}  // namespace tilefold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
