// merge(): identity, order, splits that agree with the whole, sinks, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tilefold/attention.hpp"
#include "tilefold/fold.hpp"

namespace tilefold {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int rows = 5, heads = 2, dim = 4;

struct Part {
  std::vector<double> out = std::vector<double>(rows * heads * dim, 0.0);
  std::vector<double> lse = std::vector<double>(heads * rows, -infinity);
  PartialResult view() const {
    return {TensorView(out.data(), {1, rows, heads, dim}),
            TensorView(lse.data(), {1, heads, rows})};
  }
};

Part part(double seed, double shift) {
  Part p;
  for (std::size_t i = 0; i < p.out.size(); ++i) p.out[i] = std::sin(seed + double(i));
  for (std::size_t i = 0; i < p.lse.size(); ++i) p.lse[i] = shift + std::cos(seed * double(i + 1));
  return p;
}

Part merged(const std::vector<Part>& parts, const TensorView& sinks = {}) {
  std::vector<PartialResult> views;
  for (const Part& p : parts) views.push_back(p.view());
  Part r;
  merge(views, OutputView(r.out.data(), {1, rows, heads, dim}),
        OutputView(r.lse.data(), {1, heads, rows}), sinks);
  return r;
}

void expect_near(const Part& a, const Part& b, double tolerance) {
  for (std::size_t i = 0; i < a.out.size(); ++i) EXPECT_NEAR(a.out[i], b.out[i], tolerance) << i;
  for (std::size_t i = 0; i < a.lse.size(); ++i) {
    if (std::isinf(b.lse[i])) {
      EXPECT_EQ(a.lse[i], b.lse[i]);
    } else {
      EXPECT_NEAR(a.lse[i], b.lse[i], tolerance) << i;
    }
  }
}

TEST(Merge, TheEmptyPartIsTheIdentity) {
  const Part a = part(1, 2), empty;
  expect_near(merged({a, empty}), a, 1e-15);
  expect_near(merged({empty, a}), a, 1e-15);
  expect_near(merged({a}), a, 1e-15);
}

TEST(Merge, TwoEmptyPartsMakeAnEmptyOneAndNoNaN) {
  Part r = merged({Part(), Part()});
  for (const double x : r.out) EXPECT_EQ(x, 0);
  for (const double x : r.lse) EXPECT_EQ(x, -infinity);
  r = merged({});
  for (const double x : r.out) EXPECT_EQ(x, 0);
}

TEST(Merge, AnEmptyPartsOutputIsNotRead) {
  Part empty;
  std::fill(empty.out.begin(), empty.out.end(), std::nan(""));
  expect_near(merged({part(1, 0), empty}), part(1, 0), 1e-15);
}

TEST(Merge, OrderAndGroupingDoNotMatter) {
  const Part a = part(1, 0), b = part(2, 3), c = part(3, -40);
  const Part whole = merged({a, b, c});
  expect_near(merged({c, a, b}), whole, 1e-14);
  expect_near(merged({merged({a, b}), c}), whole, 1e-14);
  expect_near(merged({a, merged({b, c})}), whole, 1e-14);
}

TEST(Merge, KeepsWeightAtVeryLargeScores) {
  const Part a = part(1, 1e5), b = part(2, 1e5);
  const Part r = merged({a, b});
  for (int i = 0; i < rows * heads; ++i) {
    const double wa = 1 / (1 + std::exp(b.lse[std::size_t(i)] - a.lse[std::size_t(i)]));
    const int head = i / rows, row = i % rows;
    const auto at = std::size_t((row * heads + head) * dim);
    EXPECT_NEAR(r.out[at], wa * a.out[at] + (1 - wa) * b.out[at], 1e-10);
  }
}

TEST(Merge, ASinkIsAPartWithoutValue) {
  const std::vector<float> sinks = {0.5f, -2.0f};
  const Part a = part(1, 0);
  Part sink;
  for (int h = 0; h < heads; ++h)
    for (int i = 0; i < rows; ++i) sink.lse[std::size_t(h * rows + i)] = sinks[std::size_t(h)];
  expect_near(merged({a}, TensorView(sinks.data(), {2})), merged({a, sink}), 1e-15);
}

TEST(Merge, NaNIsNotTurnedIntoZero) {
  Part a = part(1, 0);
  a.lse[0] = std::nan("");
  EXPECT_TRUE(std::isnan(merged({a, part(2, 0)}).out[0]));
  EXPECT_TRUE(std::isnan(merged({part(2, 0), a}).lse[0]));
  a = part(1, -1000);
  a.out[0] = std::nan("");
  EXPECT_TRUE(std::isnan(merged({a, part(2, 0)}).out[0]));
}

TEST(Merge, PartsOfTheKeysMakeTheWhole) {
  std::vector<double> q(rows * heads * dim), k(90 * heads * dim), v(k.size());
  for (std::size_t i = 0; i < k.size(); ++i) {
    if (i < q.size()) q[i] = std::sin(double(i));
    k[i] = std::cos(0.3 * double(i));
    v[i] = std::sin(0.7 * double(i));
  }
  const TensorView query(q.data(), {1, rows, heads, dim}), key(k.data(), {1, 90, heads, dim});
  const TensorView value(v.data(), {1, 90, heads, dim});
  Part whole;
  attend(query, key, value, OutputView(whole.out.data(), {1, rows, heads, dim}), {},
         OutputView(whole.lse.data(), {1, heads, rows}));
  std::vector<Part> parts;
  for (const auto& [first, last] : {std::pair{0, 33}, {33, 33}, {33, 90}}) {
    parts.emplace_back();
    attend(query, key.slice(1, first, last), value.slice(1, first, last),
           OutputView(parts.back().out.data(), {1, rows, heads, dim}),
           {.output = OutputKind::partial}, OutputView(parts.back().lse.data(), {1, heads, rows}));
  }
  expect_near(merged(parts), whole, 1e-13);
}

TEST(Merge, RefusesWhatDoesNotFit) {
  using ::testing::HasSubstr;
  const auto refusal = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was refused";
  };
  Part a = part(1, 0), r;
  std::fill(r.out.begin(), r.out.end(), -7.0);
  const OutputView out(r.out.data(), {1, rows, heads, dim});
  PartialResult p = a.view();
  p.lse = TensorView(a.lse.data(), {1, rows, heads});
  EXPECT_THAT(refusal([&] { merge({{p}}, out); }), HasSubstr("parts[0].lse is f64 [1, 5, 2]"));
  p = a.view();
  p.out = TensorView(a.out.data(), {1, rows, heads, 2});
  EXPECT_THAT(refusal([&] { merge({{a.view(), p}}, out); }), HasSubstr("parts[1].out is"));
  EXPECT_THAT(refusal([&] {
                merge({{a.view()}}, OutputView(a.out.data(), {1, rows, heads, dim}));
              }),
              HasSubstr("out shares memory with a part's out"));
  const float sink = 0;
  EXPECT_THAT(refusal([&] { merge({{a.view()}}, out, {}, TensorView(&sink, {1})); }),
              HasSubstr("sinks is f32 [1]"));
  for (const double x : r.out) EXPECT_EQ(x, -7.0);
}

TEST(Fold, JoinIsTheLawInFloatAndDouble) {
  const auto check = [](auto zero) {
    using F = decltype(zero);
    using P = fold::Part<F>;
    fold::Weights<F> w{};
    const P joint = fold::join(P{F(3), F(2)}, P{F(1), F(4)}, w);
    EXPECT_EQ(joint.max, F(3));
    EXPECT_NEAR(joint.sum, 2 + 4 * std::exp(-2.0), 1e-6);
    const P empty = fold::join(P::empty(), P::empty(), w);
    EXPECT_TRUE(empty.is_empty());
    EXPECT_EQ(w.left, F(0));
    EXPECT_EQ(w.right, F(0));
    EXPECT_EQ(fold::log_sum(empty), -F(infinity));
    const P same = fold::join(P{F(-1e30), F(2)}, P::empty(), w);
    EXPECT_EQ(w.left, F(1));
    EXPECT_EQ(same.sum, F(2));
    EXPECT_TRUE(std::isnan(fold::join(P{F(NAN), F(1)}, P{F(0), F(1)}, w).max));
    EXPECT_TRUE(std::isnan(fold::join(P{F(0), F(1)}, P{F(NAN), F(1)}, w).max));
  };
  check(0.0f);
  check(0.0);
}

}  // namespace
}  // namespace tilefold
