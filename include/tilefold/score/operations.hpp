// The operations of formulas that are built at run time: each is one struct whose of() is written
// for every reading. The CPU's evaluator calls them over arrays, the text that NVRTC compiles names
// them, and intervals and derivatives are theirs too.
//
//   op::Add::of(3, 4);                                 // 7
//   op::Add::of(Interval{0, 3}, Interval{10, 20});     // 10 .. 23
//
// Integers have 32 bits and saturate: what would leave them stays at the end of the range, which
// is what Interval says too. Reals are float32 in masks, and the score's own type in score changes.
#pragma once

#include "tilefold/score/real.hpp"
#include "tilefold/score/span.hpp"

namespace tilefold::score {

/// The integers, reals and answers that go with a type of positions.
template <class N> struct ReadingOf {
  using Integer = int;
  using Real = float;
  using Answer = bool;
};
template <> struct ReadingOf<Position> {
  using Integer = int;
  using Real = float;
  using Answer = Bit;
};
template <> struct ReadingOf<Interval> {
  using Integer = Interval;
  using Real = Span;
  using Answer = Truth;
};

/// A position as an integer of its reading.
TILEFOLD_HD constexpr int integer(int x) { return x; }
TILEFOLD_HD constexpr int integer(Position x) { return x.sum(); }
TILEFOLD_HD constexpr Interval integer(Interval x) { return x; }

/// A number that is the same for all elements, made comparable with sums of positions, which lie
/// within +-2^29: no comparison changes, and no difference overflows.
TILEFOLD_HD constexpr int comparable(int x) {
  constexpr int most = (1 << 29) + 1;
  return x < -most ? -most : x > most ? most : x;
}
/// A position as one real.
template <class F> TILEFOLD_HD constexpr F flat(F x) { return x; }
template <class F> TILEFOLD_HD constexpr F flat(Linear<F> x) { return x.base + x.offset; }

namespace op {

inline constexpr int least = -2147483647 - 1, most = 2147483647;

/// The interval of a function's values at the corners of two intervals: exact bounds where it is
/// monotone in each argument.
template <class Operation> TILEFOLD_HD constexpr Interval at_corners(Interval a, Interval b) {
  const int w = Operation::of(a.low, b.low), x = Operation::of(a.low, b.high);
  const int y = Operation::of(a.high, b.low), z = Operation::of(a.high, b.high);
  return {smaller(smaller(w, x), smaller(y, z)), larger(larger(w, x), larger(y, z))};
}

struct Add {
  template <class F> TILEFOLD_HD static constexpr F of(F a, F b) { return a + b; }
  // Two positive numbers whose sum wrapped give a negative one, and the reverse; the test and the
  // choice are bitwise, so that loops over elements become vector code.
  TILEFOLD_HD static constexpr int of(int a, int b) {
    const int sum = int(unsigned(a) + unsigned(b));
    return ((a ^ sum) & (b ^ sum)) < 0 ? (a >> 31) ^ most : sum;
  }
};
struct Subtract {
  template <class F> TILEFOLD_HD static constexpr F of(F a, F b) { return a - b; }
  TILEFOLD_HD static constexpr int of(int a, int b) {
    const int difference = int(unsigned(a) - unsigned(b));
    return ((a ^ b) & (a ^ difference)) < 0 ? (a >> 31) ^ most : difference;
  }
};
struct Multiply {
  template <class F> TILEFOLD_HD static constexpr F of(F a, F b) { return a * b; }
  template <class F> TILEFOLD_HD static constexpr F of(F a, Linear<F> b) { return a * b; }
  template <class F> TILEFOLD_HD static constexpr F of(Linear<F> a, F b) { return a * b; }
  TILEFOLD_HD static constexpr int of(int a, int b) { return saturated(1LL * a * b); }
};
/// Of reals: by 0 as IEEE says.
struct Divide {
  template <class F> TILEFOLD_HD static constexpr F of(F a, F b) { return a / b; }
  /// By a number that is the same for all elements.
  template <class F> TILEFOLD_HD static constexpr F by(F a, F b) { return quotient(a, b); }
};
/// Rounds towards minus infinity; by 0 it is 0.
struct FloorDivide {
  TILEFOLD_HD static constexpr int of(int a, int b) {
    if (b == 0) return 0;
    return a == least && b == -1 ? most : floor_div(a, b);
  }
  /// By 2^power.
  template <int power> TILEFOLD_HD static constexpr int by_power(int a) { return a >> power; }
  template <int power> TILEFOLD_HD static constexpr Interval by_power(Interval a) {
    return {a.low >> power, a.high >> power};
  }
  TILEFOLD_HD static constexpr Interval of(Interval a, Interval b) {
    if (b.low > 0 || b.high < 0) return at_corners<FloorDivide>(a, b);
    if (b.low == 0 && b.high == 0) return 0;
    const int far = larger(abs(a).high, 1);
    return {saturated(-1LL - far), far};
  }
};
/// What floor division leaves, with the divisor's sign; by 0 it is 0.
struct Modulo {
  TILEFOLD_HD static constexpr int of(int a, int b) {
    return b == 0 || b == -1 ? 0 : int(a - 1LL * b * floor_div(a, b));
  }
  /// By 2^power.
  template <int power> TILEFOLD_HD static constexpr int by_power(int a) {
    return a & ((1 << power) - 1);
  }
  template <int power> TILEFOLD_HD static constexpr Interval by_power(Interval a) {
    return of(a, 1 << power);
  }
  TILEFOLD_HD static constexpr Interval of(Interval a, Interval b) {
    if (b.single()) {
      if (b.low == 0 || b.low == -1) return 0;
      if (floor_div(a.low, b.low) == floor_div(a.high, b.low))
        return {of(a.low, b.low), of(a.high, b.low)};
    }
    if (a.low >= 0 && a.high < b.low) return a;
    return {smaller(b.low < 0 ? b.low + 1 : 0, 0), larger(b.high - (b.high > 0), 0)};
  }
};
struct Minimum {
  template <class T> TILEFOLD_HD static constexpr T of(T a, T b) { return smaller(a, b); }
  template <class F> TILEFOLD_HD static constexpr Dual<F> of(Dual<F> a, Dual<F> b) {
    return b < a ? b : a;
  }
};
struct Maximum {
  template <class T> TILEFOLD_HD static constexpr T of(T a, T b) { return larger(a, b); }
  template <class F> TILEFOLD_HD static constexpr Dual<F> of(Dual<F> a, Dual<F> b) {
    return a < b ? b : a;
  }
};
struct Negative {
  template <class F> TILEFOLD_HD static constexpr F of(F a) { return -a; }
  TILEFOLD_HD static constexpr int of(int a) { return a == least ? most : -a; }
};
struct Absolute {
  template <class T> TILEFOLD_HD static constexpr T of(T a) { return abs(a); }
  TILEFOLD_HD static constexpr int of(int a) { return a < 0 ? Negative::of(a) : a; }
};

/// Least number of the form 2^n - 1 from `x` on; x is not negative.
TILEFOLD_HD constexpr int ones_over(int x) {
  for (int shift = 1; shift < 32; shift *= 2) x |= x >> shift;
  return x;
}
struct BitAnd {
  TILEFOLD_HD static constexpr int of(int a, int b) { return a & b; }
  TILEFOLD_HD static constexpr Interval of(Interval a, Interval b) {
    if (a.single() && b.single()) return a.low & b.low;
    if (a.low >= 0 && b.low >= 0) return {0, smaller(a.high, b.high)};
    if (a.low >= 0) return {0, a.high};
    if (b.low >= 0) return {0, b.high};
    return {least, most};
  }
};
struct BitOr {
  TILEFOLD_HD static constexpr int of(int a, int b) { return a | b; }
  TILEFOLD_HD static constexpr Interval of(Interval a, Interval b) {
    if (a.single() && b.single()) return a.low | b.low;
    if (a.low < 0 || b.low < 0) return {least, most};
    return {larger(a.low, b.low), ones_over(larger(a.high, b.high))};
  }
};
struct BitXor {
  TILEFOLD_HD static constexpr int of(int a, int b) { return a ^ b; }
  TILEFOLD_HD static constexpr Interval of(Interval a, Interval b) {
    if (a.single() && b.single()) return a.low ^ b.low;
    if (a.low < 0 || b.low < 0) return {least, most};
    return {0, ones_over(larger(a.high, b.high))};
  }
};
/// Shifts by less than 0 count as 0, by more than 31 as 31.
TILEFOLD_HD constexpr int shift_held(int by) { return by < 0 ? 0 : by > 31 ? 31 : by; }
/// Times 2^by, saturated.
struct ShiftLeft {
  TILEFOLD_HD static constexpr int of(int a, int by) {
    return saturated(1LL * a * (1LL << shift_held(by)));
  }
  TILEFOLD_HD static constexpr Interval of(Interval a, Interval by) {
    return at_corners<ShiftLeft>(a, by);
  }
};
/// Divided by 2^by towards minus infinity.
struct ShiftRight {
  TILEFOLD_HD static constexpr int of(int a, int by) { return a >> shift_held(by); }
  TILEFOLD_HD static constexpr Interval of(Interval a, Interval by) {
    return at_corners<ShiftRight>(a, by);
  }
};
/// Bit `at` of a word, 0 the lowest; there is none below 0 and from 32 on.
struct TestBit {
  TILEFOLD_HD static constexpr bool of(int word, int at) {
    return at >= 0 && at < 32 && ((unsigned(word) >> (at & 31)) & 1u) != 0;
  }
  TILEFOLD_HD static constexpr Truth of(Interval word, Interval at) {
    const int first = larger(at.low, 0), last = smaller(at.high, 31);
    if (first > last) return false;
    const unsigned bits = (0xffffffffu >> (31 - last)) & (0xffffffffu << first);
    if (!word.single()) return Truth::some;
    const unsigned found = unsigned(word.low) & bits;
    return Truth::of(found == bits && at.low >= 0 && at.high < 32, found != 0);
  }
};

struct Less {
  template <class T> TILEFOLD_HD static constexpr auto of(T a, T b) { return a < b; }
};
struct LessEqual {
  template <class T> TILEFOLD_HD static constexpr auto of(T a, T b) { return a <= b; }
};
struct Equal {
  template <class T> TILEFOLD_HD static constexpr auto of(T a, T b) { return a == b; }
  template <class F> TILEFOLD_HD static constexpr bool of(Dual<F> a, Dual<F> b) {
    return a.value == b.value;
  }
};

// Both operands are always computed: no branch an element.
struct Both {
  template <class A> TILEFOLD_HD static constexpr A of(A a, A b) { return a && b; }
  TILEFOLD_HD static constexpr bool of(bool a, bool b) { return (int(a) & int(b)) != 0; }
};
struct Either {
  template <class A> TILEFOLD_HD static constexpr A of(A a, A b) { return a || b; }
  TILEFOLD_HD static constexpr bool of(bool a, bool b) { return (int(a) | int(b)) != 0; }
};
struct Not {
  template <class A> TILEFOLD_HD static constexpr A of(A a) { return !a; }
};
/// `a` where `c` holds, else `b`.
struct Select {
  template <class T> TILEFOLD_HD static constexpr T of(bool c, T a, T b) { return c ? a : b; }
  template <class T> TILEFOLD_HD static constexpr T of(Bit c, T a, T b) { return c.value ? a : b; }
  template <class T> TILEFOLD_HD static constexpr T of(Truth c, T a, T b) {
    return c.yes() ? a : c.no() ? b : hull(a, b);
  }
};

struct Exp {
  template <class F> TILEFOLD_HD static F of(F x) { return exp(x); }
};
struct Log {
  template <class F> TILEFOLD_HD static F of(F x) { return log(x); }
};
struct Tanh {
  template <class F> TILEFOLD_HD static F of(F x) { return tanh(x); }
  /// cap * tanh(x / cap), of a cap that is the same for all elements.
  template <class F> TILEFOLD_HD static F capped(F x, F cap) { return soft_capped(x, cap); }
};
/// 1 / (1 + exp(-x))
struct Sigmoid {
  template <class F> TILEFOLD_HD static F of(F x) { return F(1.0f) / (F(1.0f) + exp(-x)); }
  TILEFOLD_HD static Span of(Span x) {
    const Span s = Span{of(x.low), of(x.high), x.nan}.widened();
    return {larger(s.low, 0.0f), smaller(s.high, 1.0f), s.nan};
  }
};
/// The largest whole number that is not above x, as an integer; NaN gives 0.
struct Floor {
  TILEFOLD_HD static constexpr int held(double x) {
    return x != x ? 0 : x <= double(least) ? least : x >= double(most) ? most : int(x);
  }
  template <class F> TILEFOLD_HD static int of(F x) { return held(double(floor(x))); }
  template <class F> TILEFOLD_HD static int of(Dual<F> x) { return of(x.value); }
  TILEFOLD_HD static Interval of(Span x) {
    const Interval whole{of(x.low), of(x.high)};
    return x.nan ? hull(whole, Interval(0)) : whole;
  }
};
/// An integer as a real.
template <class S> struct RealOf {
  TILEFOLD_HD static constexpr S of(int x) { return real<S>(x); }
  TILEFOLD_HD static constexpr Linear<S> of(Position x) { return real<S>(x); }
};
template <> struct RealOf<Span> {
  TILEFOLD_HD static constexpr Span of(Interval x) { return {float(x.low), float(x.high)}; }
};

}  // namespace op

}  // namespace tilefold::score
