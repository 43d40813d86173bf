// Laws: eager attention is the reference up to the roundings it states; attention over disjoint
// sets of keys folds into attention over all of them; the accuracy rule tells right from wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/attention.hpp"
#include "support/accuracy.hpp"
#include "support/problem_generator.hpp"
#include "tilefold/fold.hpp"

namespace tilefold::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Half a step of a number near 1.
double unit_roundoff(DType type) {
  switch (type) {
    case DType::f64: return 0x1p-53;
    case DType::f16: return 0x1p-11;
    case DType::bf16:
    case DType::e4m3:
    case DType::e5m2: return 0x1p-8;
    default: return 0x1p-24;
  }
}

GeneratorLimits small_limits() {
  GeneratorLimits limits;
  limits.work = 2e5;
  limits.query_length = 20;
  limits.key_length = 60;
  limits.head_dim = 40;
  return limits;
}

struct Errors {
  double out = 0, lse = 0;      // largest differences
  double value = 0, score = 0;  // largest |out| and |lse|, of finite rows
  bool finite = true;
};

Errors errors_of(const reference::Result& eager, const reference::Result& exact) {
  Errors e;
  for (int b = 0; b < exact.out.sequences(); ++b)
    for (int row = 0; row < exact.out.rows(b); ++row)
      for (int head = 0; head < exact.out.heads(); ++head) {
        const double lse = *exact.lse.at(b, row, head);
        if (std::isfinite(lse)) {
          e.lse = std::max(e.lse, std::abs(lse - *eager.lse.at(b, row, head)));
          e.score = std::max(e.score, std::abs(lse));
        }
        for (int c = 0; c < exact.out.columns(); ++c) {
          const double x = exact.out.at(b, row, head)[c];
          e.finite = e.finite && std::isfinite(x);
          e.out = std::max(e.out, std::abs(x - eager.out.at(b, row, head)[c]));
        }
      }
  return e;
}

/// Values are at most 64 (huge draws), descaled by at most 1.2.
constexpr double largest_value = 64 * 1.2;

TEST(EagerAttention, DiffersFromTheReferenceByItsRoundingsOnly) {
  int inexact = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomProblem drawn = make_random_problem(seed, small_limits());
    const core::Geometry g = core::resolve(drawn.problem);
    const reference::Case p{g, drawn.problem.tensors, drawn.problem.options};
    const Errors e = errors_of(reference::eager(p), reference::forward(p));
    if (!e.finite) continue;
    const double score_error = g.computes_in_double() ? 1e-12 : 1e-5 * (10 + e.score);
    const double weight = unit_roundoff(g.query_dtype) + unit_roundoff(g.out_dtype);
    EXPECT_LE(e.lse, score_error) << drawn.describe();
    EXPECT_LE(e.out, (2 * weight + 2 * score_error) * largest_value) << drawn.describe();
    inexact += g.query_dtype == DType::bf16 && e.out > 1e-6;
  }
  EXPECT_GT(inexact, 10) << "eager attention in bf16 must show bf16's roundings";
}

/// Keeps the keys on one side of a border.
struct Side {
  int border;
  bool left;
  bool keep(int, int k, score::Place) const { return (k < border) == left; }
};

TEST(Fold, ReferenceResultsOverTwoSetsOfKeysJoinIntoTheWhole) {
  GeneratorLimits limits = small_limits();
  limits.query_dtype = DType::f64;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    RandomProblem drawn = make_random_problem(seed, limits);
    drawn.problem.tensors.sinks = {};
    const core::Geometry g = core::resolve(drawn.problem);
    const Tensors& t = drawn.problem.tensors;
    const reference::Result whole = reference::forward({g, t, drawn.problem.options});
    const auto part = [&](bool left) {
      Options options = drawn.problem.options;
      options.mask = options.mask && mask<Reading::elements>(Side{5, left});
      return reference::forward({g, t, options});
    };
    const reference::Result a = part(true), b = part(false);
    for (int s = 0; s < whole.out.sequences(); ++s)
      for (int row = 0; row < whole.out.rows(s); ++row)
        for (int head = 0; head < whole.out.heads(); ++head) {
          fold::Weights<double> w{};
          const auto joint = fold::join(fold::from_lse(*a.lse.at(s, row, head)),
                                        fold::from_lse(*b.lse.at(s, row, head)), w);
          const double lse = fold::log_sum(joint), want = *whole.lse.at(s, row, head);
          if (std::isnan(want)) continue;
          ASSERT_TRUE(lse == want || std::abs(lse - want) <= 1e-12 * (1 + std::abs(want)))
              << lse << " is not " << want << "\n"
              << drawn.describe();
          if (joint.is_empty()) continue;
          // An lse of -1e30 has swallowed the sum that the parts would be weighed by.
          if (std::abs(want) > 1e6) continue;
          for (int c = 0; c < whole.out.columns(); ++c) {
            const double out =
                (a.out.at(s, row, head)[c] * w.left + b.out.at(s, row, head)[c] * w.right) /
                joint.sum;
            const double exact = whole.out.at(s, row, head)[c];
            if (!std::isfinite(exact)) continue;
            ASSERT_NEAR(out, exact, 1e-11 * (1 + std::abs(exact))) << drawn.describe();
          }
        }
  }
}

TEST(Fold, EmptyPartIsTheIdentityAndTwoMakeNoNaN) {
  using Part = fold::Part<double>;
  fold::Weights<double> w{};
  const Part x{-70000.25, 3.5};
  for (const auto& [a, b] : {std::pair(x, Part::empty()), std::pair(Part::empty(), x)}) {
    const Part joint = fold::join(a, b, w);
    EXPECT_EQ(joint.max, x.max);
    EXPECT_EQ(joint.sum, x.sum);
    EXPECT_EQ(w.left + w.right, 1);
  }
  const Part none = fold::join(Part::empty(), Part::empty(), w);
  EXPECT_TRUE(none.is_empty());
  EXPECT_EQ(none.sum, 0);
  EXPECT_EQ(w.left, 0);
  EXPECT_EQ(fold::log_sum(none), -infinity);
}

TEST(Fold, JoinIsCommutativeAndAssociative) {
  using Part = fold::Part<double>;
  const Part a{3.0, 1.5}, b{-2.0, 4.0}, c{900.0, 2.0};
  fold::Weights<double> w{}, v{};
  EXPECT_EQ(fold::log_sum(fold::join(a, b, w)), fold::log_sum(fold::join(b, a, v)));
  EXPECT_EQ(w.left, v.right);
  const double left = fold::log_sum(fold::join(fold::join(a, b, w), c, w));
  const double right = fold::log_sum(fold::join(a, fold::join(b, c, w), w));
  EXPECT_NEAR(left, right, 1e-12 * std::abs(left));
}

TEST(Fold, NaNOfEitherSideSurvives) {
  using Part = fold::Part<double>;
  fold::Weights<double> w{};
  const Part nan{std::nan(""), 1}, x{2.0, 1.0};
  EXPECT_TRUE(std::isnan(fold::log_sum(fold::join(nan, x, w))));
  EXPECT_TRUE(std::isnan(fold::log_sum(fold::join(x, nan, w))));
}

/// One sequence, one head, two rows of two columns.
struct RuleFixture : ::testing::Test {
  reference::Table want{{2}, 1, 2}, eager{{2}, 1, 2}, got{{2}, 1, 2};
  RuleFixture() {
    for (int row = 0; row < 2; ++row)
      for (int c = 0; c < 2; ++c)
        want.at(0, row, 0)[c] = eager.at(0, row, 0)[c] = got.at(0, row, 0)[c] = 1 + row + c;
    eager.at(0, 0, 0)[0] += 0.01;
  }
};

TEST_F(RuleFixture, AllowsTwiceTheErrorOfEagerAndNoMore) {
  got.at(0, 1, 0)[1] += 0.0199;
  EXPECT_TRUE(worst_deviation(got, want, eager, {}).within());
  got.at(0, 1, 0)[1] += 0.0003;
  const Deviation worst = worst_deviation(got, want, eager, {});
  EXPECT_FALSE(worst.within());
  EXPECT_EQ(worst.row, 1);
  EXPECT_EQ(worst.column, 1);
}

TEST_F(RuleFixture, RefusesANumberWhereTheReferenceHasNone) {
  want.at(0, 0, 0)[1] = std::nan("");
  EXPECT_FALSE(worst_deviation(got, want, eager, {}).within());
  got.at(0, 0, 0)[1] = infinity;
  EXPECT_TRUE(worst_deviation(got, want, eager, {}).within());
}

TEST_F(RuleFixture, RefusesNaNWhereTheReferenceHasANumber) {
  got.at(0, 0, 0)[1] = std::nan("");
  EXPECT_FALSE(worst_deviation(got, want, eager, {}).within());
  AccuracyRule spreading;
  spreading.may_spread_nan = {true};
  EXPECT_TRUE(worst_deviation(got, want, eager, spreading).within());
}

TEST_F(RuleFixture, AnEmptyRowIsMinusInfinityAndNotNaN) {
  want.at(0, 0, 0)[0] = -infinity;
  got.at(0, 0, 0)[0] = std::nan("");
  EXPECT_FALSE(worst_deviation(got, want, eager, {}).within());
  got.at(0, 0, 0)[0] = -infinity;
  EXPECT_TRUE(worst_deviation(got, want, eager, {}).within());
}

}  // namespace
}  // namespace tilefold::testing
