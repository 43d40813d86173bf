// Laws of the tile answer, checked exhaustively on small numbers: whatever interval arithmetic says
// of a tile holds for every element in it.
#include "tilefold/score/interval.hpp"

#include <gtest/gtest.h>

#include <climits>

namespace tilefold::score {
namespace {

constexpr int reach = 4;

// Calls check(Interval, Interval) for every pair of intervals within +-reach.
template <class Check> void each_pair(const Check& check) {
  for (int a = -reach; a <= reach; ++a)
    for (int b = a; b <= reach; ++b)
      for (int c = -reach; c <= reach; ++c)
        for (int d = c; d <= reach; ++d) check(Interval(a, b), Interval(c, d));
}

template <class Operation> void expect_contains(const char* name, const Operation& op) {
  each_pair([&](Interval x, Interval y) {
    const Interval r = op(x, y);
    for (int i = x.low; i <= x.high; ++i)
      for (int j = y.low; j <= y.high; ++j)
        ASSERT_TRUE(r.contains(op(i, j))) << name << " of [" << x.low << ", " << x.high << "] and ["
                                          << y.low << ", " << y.high << "] misses " << op(i, j);
  });
}

template <class Comparison> void expect_sharp(const char* name, const Comparison& op) {
  each_pair([&](Interval x, Interval y) {
    bool every = true, any = false;
    for (int i = x.low; i <= x.high; ++i)
      for (int j = y.low; j <= y.high; ++j) {
        every = every && op(i, j);
        any = any || op(i, j);
      }
    ASSERT_EQ(Truth(op(x, y)), Truth::of(every, any))
        << name << " of " << x.low << ".." << x.high << " and " << y.low << ".." << y.high;
  });
}

TEST(Interval, ArithmeticContainsEveryElement) {
  expect_contains("+", [](auto a, auto b) { return a + b; });
  expect_contains("-", [](auto a, auto b) { return a - b; });
  expect_contains("*", [](auto a, auto b) { return a * b; });
  expect_contains("smaller", [](auto a, auto b) { return smaller(a, b); });
  expect_contains("larger", [](auto a, auto b) { return larger(a, b); });
  expect_contains("abs", [](auto a, auto) { return abs(a); });
  expect_contains("negation", [](auto a, auto) { return -a; });
  for (const int divisor : {-3, -2, -1, 1, 2, 3, 5}) {
    expect_contains("floor_div", [&](auto a, auto) { return floor_div(a, divisor); });
    expect_contains("floor_mod", [&](auto a, auto) { return floor_mod(a, divisor); });
  }
}

TEST(Interval, ComparisonsOfIndependentVariablesAreSharp) {
  expect_sharp("<=", [](auto a, auto b) { return a <= b; });
  expect_sharp("<", [](auto a, auto b) { return a < b; });
  expect_sharp(">=", [](auto a, auto b) { return a >= b; });
  expect_sharp(">", [](auto a, auto b) { return a > b; });
  expect_sharp("==", [](auto a, auto b) { return a == b; });
  expect_sharp("!=", [](auto a, auto b) { return a != b; });
}

TEST(Interval, SaturatesInsteadOfWrapping) {
  const Interval top(INT_MAX - 1, INT_MAX), bottom(INT_MIN, INT_MIN + 1);
  EXPECT_EQ((top + Interval(5)).high, INT_MAX);
  EXPECT_EQ((bottom - Interval(5)).low, INT_MIN);
  EXPECT_EQ((top * top).high, INT_MAX);
  EXPECT_EQ((top * bottom).low, INT_MIN);
  EXPECT_EQ(abs(Interval(INT_MIN)).high, INT_MAX);
}

TEST(Truth, FollowsKleene) {
  for (const Truth a : {Truth::none, Truth::some, Truth::all}) {
    EXPECT_EQ(a && Truth(Truth::none), Truth(Truth::none));
    EXPECT_EQ(a || Truth(Truth::all), Truth(Truth::all));
    EXPECT_EQ(a && Truth(Truth::all), a);
    EXPECT_EQ(a || Truth(Truth::none), a);
    EXPECT_EQ(!!a, a);
    for (const Truth b : {Truth::none, Truth::some, Truth::all})
      EXPECT_EQ(!(a && b), (!a || !b)) << int(a.value) << " " << int(b.value);
  }
}

TEST(FloorDivision, RoundsDownAndTheRemainderHasTheDivisorsSign) {
  for (int a = -20; a <= 20; ++a)
    for (const int b : {-7, -3, -1, 1, 2, 7}) {
      const int q = floor_div(a, b), r = floor_mod(a, b);
      EXPECT_EQ(q * b + r, a);
      EXPECT_TRUE(r == 0 || (r < 0) == (b < 0)) << a << " by " << b;
      EXPECT_LT(abs(r), abs(b));
    }
}

}  // namespace
}  // namespace tilefold::score
