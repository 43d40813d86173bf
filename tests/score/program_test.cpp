// Laws of formulas built at run time, over random trees: elements are what a plain evaluation of
// the tree gives, the tile's answer holds for every element, text and canonical form keep the
// meaning, derivatives agree with finite differences.
#include "score/program/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "score/program/formula_nodes.hpp"
#include "support/random_program.hpp"
#include "tilefold/error.hpp"

namespace tilefold {
namespace {

using score::Kind;
using score::Place;
using score::Purpose;
using score::TilePositions;
using score::Truth;
using testing::draw;
using testing::draw_place;
using testing::ElementOracle;
using ::testing::HasSubstr;
using testing::Random;

constexpr int batch = 2, heads = 4, queries = 21, keys = 33;

std::vector<unsigned char> flags_of(const Mask& mask, const TilePositions& tile) {
  std::vector<unsigned char> flags(64 * 64, 7);
  mask.node()->keep(tile, flags.data(), 64);
  return flags;
}

TEST(Operations, ByAPowerOfTwoAreByTheNumber) {
  using score::op::FloorDivide, score::op::Modulo, score::Interval;
  Random random(5);
  for (int trial = 0; trial < 2000; ++trial) {
    const int far = trial % 2 == 0 ? 300 : 2147483647;
    const int a = random.between(-far, far), b = random.between(a, far);
    ASSERT_EQ(FloorDivide::by_power<7>(a), FloorDivide::of(a, 128)) << a;
    ASSERT_EQ(Modulo::by_power<7>(a), Modulo::of(a, 128)) << a;
    for (const auto& [fast, plain] :
         {std::pair{FloorDivide::by_power<7>(Interval(a, b)),
                    FloorDivide::of(Interval(a, b), Interval(128))},
          {Modulo::by_power<7>(Interval(a, b)), Modulo::of(Interval(a, b), Interval(128))}}) {
      ASSERT_EQ(fast.low, plain.low) << a << " .. " << b;
      ASSERT_EQ(fast.high, plain.high) << a << " .. " << b;
    }
  }
}

TEST(Expressions, AreThereWhenTheyWereMovedFrom) {
  Expression a = symbols::k;
  const Expression b(static_cast<Expression&&>(a));
  EXPECT_EQ((a < b).text(), "k < k");
  Scalar x("x", 1);
  const Scalar y(static_cast<Scalar&&>(x));
  x.set(3);
  EXPECT_EQ(y.state(), x.state());
  const std::int32_t values[2]{};
  SideTensor t("t", TensorView(values, {2}));
  const SideTensor u(static_cast<SideTensor&&>(t));
  EXPECT_EQ(t[a].text(), u[b].text());
  EXPECT_THROW((void)Expression(std::shared_ptr<const score::ExpressionNode>()), Error);
}

TEST(Expressions, TakeIntegersOfEveryType) {
  EXPECT_EQ((symbols::k < std::size_t{3}).text(), "k < 3");
  EXPECT_EQ((symbols::k < -7LL).text(), "k < -7");
  EXPECT_EQ((symbols::k < std::int8_t{-7}).text(), "k < -7");
  EXPECT_THROW((void)(symbols::k < (1LL << 32)), Error);
  EXPECT_THROW((void)(symbols::k < 0xffffffffu), Error);
}

TEST(Programs, MasksAreWhatTheTreeSays) {
  for (int seed = 0; seed < 3000; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const testing::FormulaMaterial material(random, batch, heads, queries, keys);
    const Expression keep = draw({random, material.names()}, Kind::truth, random.between(1, 5));
    const Mask formula = mask(keep);
    const Place at = draw_place(random, batch, heads, queries, keys);
    const TilePositions tile{at.query_length - 1, -1, at.query_length, 0, 1, at.key_length, at};
    const std::vector<unsigned char> flags = flags_of(formula, tile);
    for (int c = 0; c < tile.keys; ++c)
      for (int r = 0; r < 64; ++r) {
        const int q = at.query_length - 1 - r;
        if (q < 0) {
          ASSERT_EQ(flags[std::size_t(c * 64 + r)], 7) << "written past its queries";
        } else {
          ASSERT_EQ(flags[std::size_t(c * 64 + r)], ElementOracle<float>({q, c, at})(keep))
              << "seed " << seed << ": " << keep.text() << "\ncanonical: " << formula.text()
              << "\nq " << q << " k " << c;
        }
      }
  }
}

TEST(Programs, TheTileAnswerHoldsForEveryElement) {
  int sure = 0, asked = 0;
  for (int seed = 0; seed < 3000; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const testing::FormulaMaterial material(random, batch, heads, queries, keys);
    const Expression keep = draw({random, material.names()}, Kind::truth, random.between(1, 5));
    const Mask formula = mask(keep);
    const Place at = draw_place(random, batch, heads, queries, keys);
    const TilePositions all{0, 1, at.query_length, 0, 1, at.key_length, at};
    const std::vector<unsigned char> flags = flags_of(formula, all);
    for (int trial = 0; trial < 12; ++trial) {
      const int q0 = random.between(0, at.query_length - 1);
      const int q1 = random.between(q0, at.query_length - 1);
      const int k0 = random.between(0, at.key_length - 1);
      const int k1 = random.between(k0, std::min(k0 + 15, at.key_length - 1));
      bool every = true, any = false;
      for (int q = q0; q <= q1; ++q)
        for (int k = k0; k <= k1; ++k) {
          every = every && flags[std::size_t(k * 64 + q)] == 1;
          any = any || flags[std::size_t(k * 64 + q)] == 1;
        }
      const Truth answer = formula.node()->classify({q0, q1}, {k0, k1}, at);
      ASSERT_TRUE(answer.maybe() || (answer.yes() ? every : !any))
          << "seed " << seed << ": " << formula.text() << "\n"
          << (answer.yes() ? "all" : "none") << " of q " << q0 << ".." << q1 << ", k " << k0 << ".."
          << k1;
      ++asked;
      sure += !answer.maybe();
    }
  }
  EXPECT_GT(sure, asked / 3);
}

TEST(Programs, OneElementIsAnsweredExactlyByIntervalsOfOne) {
  // Integers have no rounding: an interval of one pair knows.
  using namespace symbols;
  for (const Expression& keep : {k <= q + off, (q - k) % 3 == 0, bit(q, k), (q & 3) < (k | 1),
                                 floor_div(q, 4) == floor_div(k, 4), abs(q - k) << 2 < 40}) {
    const Mask formula = mask(keep);
    const Place at{0, 0, 0, queries, keys, keys - queries};
    for (int i = 0; i < queries; ++i)
      for (int j = 0; j < keys; ++j)
        ASSERT_EQ(formula.node()->classify(i, j, at),
                  Truth(ElementOracle<float>({i, j, at})(keep) != 0))
            << formula.text() << " q " << i << " k " << j;
  }
}

TEST(Programs, ScoresAreWhatTheTreeSays) {
  for (int seed = 0; seed < 1500; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const testing::FormulaMaterial material(random, batch, heads, queries, keys);
    const Expression formula =
        draw({random, material.names(), true}, Kind::real, random.between(1, 5));
    const ScoreChange changed = change(formula);
    const Place at = draw_place(random, batch, heads, queries, keys);
    const TilePositions tile{0, 1, at.query_length, 0, 1, at.key_length, at};
    std::vector<float> single(64 * 64), given(64 * 64);
    std::vector<double> wide(64 * 64);
    for (std::size_t i = 0; i < single.size(); ++i) {
      given[i] = random.chance(0.05) ? -INFINITY : float(random.normal() * 2);
      single[i] = given[i];
      wide[i] = double(given[i]);
    }
    changed.node()->change(tile, single.data(), 64);
    changed.node()->change(tile, wide.data(), 64);
    const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    for (int c = 0; c < tile.keys; ++c)
      for (int r = 0; r < tile.queries; ++r) {
        const auto i = std::size_t(c * 64 + r);
        if (given[i] == -INFINITY) {
          ASSERT_EQ(single[i], -INFINITY);
          continue;
        }
        ASSERT_TRUE(same(double(single[i]), ElementOracle<float>({r, c, at, given[i]})(formula)))
            << "seed " << seed << ": " << formula.text() << " gives " << single[i];
        ASSERT_TRUE(same(wide[i], ElementOracle<double>({r, c, at, double(given[i])})(formula)))
            << "seed " << seed << ": " << formula.text() << " gives " << wide[i];
      }
  }
}

TEST(Programs, DerivativesAgreeWithFiniteDifferences) {
  for (int seed = 0; seed < 800; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const testing::FormulaMaterial material(random, batch, heads, queries, keys);
    const Expression formula =
        draw({random, material.names(), true, true}, Kind::real, random.between(1, 4));
    const ScoreChange changed = change(formula);
    const Place at = draw_place(random, batch, heads, queries, keys);
    const double s = random.normal(), h = 1e-5;
    const int q = random.between(0, at.query_length - 1), k = random.between(0, at.key_length - 1);
    const auto at_score = [&](double x) { return ElementOracle<double>({q, k, at, x})(formula); };
    double value = s, slope = 1;
    changed.node()->differentiate({q, 1, 1, k, 1, 1, at}, &value, &slope, 1);
    const double central = (at_score(s + h) - at_score(s - h)) / (2 * h);
    if (!std::isfinite(value) || !std::isfinite(slope) || std::abs(value) > 1e6) continue;
    // Kinks (min, abs, select) lie between the two points once in many draws.
    const double left = (at_score(s) - at_score(s - h)) / h;
    if (std::abs(left - central) > 1e-3 * (1 + std::abs(central))) continue;
    ASSERT_NEAR(slope, central, 1e-4 * (1 + std::abs(central)))
        << "seed " << seed << ": " << formula.text() << " at " << s;
  }
}

TEST(Programs, TextIsReadBackAsTheSameProgram) {
  for (int seed = 0; seed < 2000; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const testing::FormulaMaterial material(random, batch, heads, queries, keys);
    const bool scores = random.chance(0.4);
    const Expression drawn = draw({random, material.names(), scores},
                                  scores ? Kind::real : Kind::truth, random.between(1, 6));
    const Purpose purpose = scores ? Purpose::score_change : Purpose::mask;
    const score::ScoreProgram program = make_program(drawn, purpose);
    const score::ScoreProgram written =
        make_program(parse_expression(drawn.text(), material.names()), purpose);
    ASSERT_EQ(program.hash(), written.hash()) << "seed " << seed << ": " << drawn.text();
    ASSERT_EQ(program.text(), written.text());
    // The canonical text is canonical: reading it changes nothing any more.
    const score::ScoreProgram again =
        make_program(parse_expression(program.text(), material.names()), purpose);
    ASSERT_EQ(program.text(), again.text()) << "seed " << seed << ": " << drawn.text();
  }
}

std::string canonical(const char* text, const Names& names = {}) {
  return make_program(parse_expression(text, names), Purpose::mask).text();
}

TEST(Programs, WhatSaysTheSameIsOneProgram) {
  const Scalar w("w", 3);
  const Names names{.scalars = {w}};
  const std::vector<std::vector<const char*>> alike = {
      {"k <= q + off", "q + off >= k", "k - off <= q", "0 <= q - k + off", "not (q + off < k)",
       "k < q + off + 1", "off + q - k > -1", "2 + k <= q + off + 2"},
      {"q + off - k <= w", "q + off <= w + k", "w >= q - k + off"},
      {"q == k", "k == q", "q - k == 0", "not q != k"},
      {"q % 4 == k % 4", "k % 4 == q % 4"},
      {"true", "q <= q", "q - q == 0", "k <= q or not (q < k - 1 and q < k) or true"},
      {"k <= q and q <= k + 5", "q <= 5 + k and k <= q", "0 <= q - k <= 5"},
  };
  for (const auto& forms : alike)
    for (const char* form : forms)
      EXPECT_EQ(canonical(form, names), canonical(forms[0], names)) << form;
  EXPECT_NE(canonical("k <= q"), canonical("k < q"));
  EXPECT_NE(canonical("k <= q + 1"), canonical("k <= q + 2"));
}

TEST(Programs, BlockAndWindowFormulasAreSharp) {
  // What the built-ins answer exactly, formulas do: nothing is loaded in vain.
  using namespace symbols;
  const Scalar w("w", 5);
  const std::vector<Expression> sharp = {k <= q + off, q + off - k <= w && k <= q + off,
                                         floor_div(q, 4) == floor_div(k, 4), k < 7,
                                         k <= q + off && q - k <= 3 - off};
  for (const Expression& keep : sharp)
    for (const Place& at : {Place{0, 0, 0, 16, 24, 8}, Place{1, 1, 0, 20, 12, -8}}) {
      const Mask formula = mask(keep);
      for (int q0 = 0; q0 < at.query_length; q0 += 4)
        for (int k0 = 0; k0 < at.key_length; k0 += 4) {
          bool every = true, any = false;
          for (int i = q0; i < q0 + 4; ++i)
            for (int j = k0; j < k0 + 4; ++j) {
              const bool kept = ElementOracle<float>({i, j, at})(keep) != 0;
              every = every && kept;
              any = any || kept;
            }
          EXPECT_EQ(formula.node()->classify({q0, q0 + 3}, {k0, k0 + 3}, at), Truth::of(every, any))
              << formula.text() << " q " << q0 << " k " << k0;
        }
    }
}

TEST(Programs, BoundsOfTheDistanceAreDescribedAsTheBuiltInsAre) {
  using What = score::MaskDescription::Kind;
  const auto described = [](const char* text) { return parse_mask(text).node()->describe(); };
  EXPECT_EQ(described("k <= q + off").kind, What::causal);
  EXPECT_EQ(described("q >= k - off").kind, What::causal);
  const auto window = described("k <= q + off and q + off - k < 1024");
  EXPECT_EQ(window.kind, What::window);
  EXPECT_EQ(window.left, 1023);
  EXPECT_EQ(window.right, 0);
  EXPECT_EQ(described("abs(k - q - off) <= 3").kind, What::code);
  EXPECT_EQ(described("-7 <= k - q - off <= 3").left, 7);
  EXPECT_EQ(described("-7 <= k - q - off <= 3").right, 3);
  EXPECT_EQ(described("k - q - off <= 5").left, -1);
  for (const char* other : {"k <= q", "k < q + off", "k >= q + off + 2", "k <= q + off or k < 3",
                            "k <= q + off and k < 9", "2 * k <= 2 * q + 2 * off", "k == q + off"})
    EXPECT_EQ(described(other).kind, What::code) << other;
  // What is described says the same as what it is described as.
  for (const char* text : {"k <= q + off", "-7 <= k - q - off <= 3", "q + off - k < 5"}) {
    const Mask formula = parse_mask(text);
    const auto d = formula.node()->describe();
    const Mask twin = d.kind == What::causal ? causal() : tilefold::window(d.left, d.right);
    const Place at{0, 0, 0, 9, 12, 3};
    const TilePositions tile{0, 1, 9, 0, 1, 12, at};
    EXPECT_EQ(flags_of(formula, tile), flags_of(twin, tile)) << text;
  }
}

TEST(Programs, NewValuesAreReadAtOnce) {
  using namespace symbols;
  Scalar reach("reach", 2);
  std::vector<int> ids = {0, 0, 1, 1};
  SideTensor doc("doc", TensorView(ids.data(), {4}));
  const Mask formula = mask(doc[q] == doc[k] && q - k < reach);
  const Place at{0, 0, 0, 4, 4, 0};
  EXPECT_TRUE(formula.node()->classify({0, 1}, {2, 3}, at).no());
  ids = {0, 0, 0, 0};
  doc.update(TensorView(ids.data(), {4}));
  EXPECT_FALSE(formula.node()->classify({0, 1}, {2, 3}, at).no());
  EXPECT_TRUE(formula.node()->classify({3, 3}, {0, 0}, at).no());
  reach.set(4);
  EXPECT_TRUE(formula.node()->classify({3, 3}, {0, 0}, at).yes());
  EXPECT_THROW(doc.update(TensorView(ids.data(), {3})), Error);
}

TEST(Programs, CellsOfATensorHoldTheirEntries) {
  Random random(7);
  std::vector<int> values(3 * 700);
  for (int& value : values) value = random.between(-1000, 1000);
  SideTensor t("t", TensorView(values.data(), {3, 700}));
  for (const unsigned blocked : {0u, 1u, 2u, 3u}) {
    const auto cells = t.state()->integer_cells(blocked);
    for (int trial = 0; trial < 4000; ++trial) {
      const int i0 = random.between(-1, 3), i1 = blocked & 1u ? random.between(i0, 3) : i0;
      const int j0 = random.between(-5, 705);
      const int j1 = blocked & 2u ? random.between(j0, 705) : j0;
      const score::Interval bound =
          cells->array.at(score::Interval(i0, i1), score::Interval(j0, j1));
      int low = 2147483647, high = -low;
      for (int i = i0; i <= i1; ++i)
        for (int j = j0; j <= j1; ++j) {
          low = std::min(low, cells->array.at(i, j));
          high = std::max(high, cells->array.at(i, j));
        }
      ASSERT_TRUE(bound.low <= low && high <= bound.high)
          << i0 << " " << i1 << " " << j0 << " " << j1;
      if (i0 == i1 && j0 == j1) {
        ASSERT_TRUE(bound.low == low && bound.high == high);
      }
    }
  }
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was refused";
}

TEST(Programs, RefuseWhatTheyCannotHold) {
  using namespace symbols;
  const std::vector<int> ids(8, 0);
  const std::vector<std::int64_t> wide = {1LL << 40};
  const SideTensor doc("doc", TensorView(ids.data(), {8}));
  EXPECT_THAT(refusal([&] { (void)mask(q + k); }), HasSubstr("a mask must be a truth"));
  EXPECT_THAT(refusal([&] { (void)change(q <= k); }), HasSubstr("a score must be a number"));
  EXPECT_THAT(refusal([&] { (void)mask(s < 1.0); }), HasSubstr("a mask reads the score s"));
  EXPECT_THAT(refusal([&] { (void)(q && k); }), HasSubstr("'and' takes truths: q is an integer"));
  EXPECT_THAT(refusal([&] { (void)(q % 0); }), HasSubstr("division by zero"));
  EXPECT_THAT(refusal([&] { (void)(s / 0.0); }), HasSubstr("division by zero"));
  EXPECT_THAT(refusal([&] { (void)(q % 2.0); }), HasSubstr("'%' takes integers"));
  EXPECT_THAT(refusal([&] { (void)doc(q, k); }), HasSubstr("read at 2 indices"));
  EXPECT_THAT(refusal([&] { (void)doc[real(q)]; }), HasSubstr("must be an integer"));
  EXPECT_THAT(refusal([&] { (void)Scalar("w", 1 << 29); }), HasSubstr("lie within"));
  EXPECT_THAT(refusal([&] { (void)Scalar("w", NAN); }), HasSubstr("NaN"));
  EXPECT_THAT(refusal([&] { (void)Scalar("w", -1e39); }), HasSubstr("w is beyond 3.4e38"));
  EXPECT_EQ(refusal([&] { (void)Scalar("w", double(INFINITY)); }), "nothing was refused");
  EXPECT_THAT(refusal([&] { (void)Scalar("2w", 1); }), HasSubstr("not begin with a digit"));
  EXPECT_THAT(refusal([&] { (void)SideTensor("t", TensorView(wide.data(), {1})); }),
              HasSubstr("must fit into 32 bits"));
  EXPECT_THAT(refusal([&] { (void)SideTensor("t", TensorView()); }), HasSubstr("absent"));
  EXPECT_THAT(refusal([&] {
                Expression deep = q;
                for (int i = 0; i < 1000; ++i) deep = deep + 1;
              }),
              HasSubstr("nests deeper"));
  EXPECT_THAT(refusal([&] {
                Expression large = q;
                for (int i = 0; i < 100; ++i) large = large * large;
              }),
              HasSubstr("terms"));
  EXPECT_THAT(refusal([&] {
                Expression many = s;
                for (int i = 0; i < 17; ++i) many = many + Scalar("x" + std::to_string(i), 1.0) * s;
                (void)change(many);
              }),
              HasSubstr("more than 16 scalars"));
  EXPECT_THAT(refusal([&] { (void)mask(Scalar("w", 1) < q && Scalar("w", 2) < k); }),
              HasSubstr("two scalars of the formula are called w"));
}

TEST(Programs, RefuseTensorsThatAreTooSmallAndDivisorsThatAreZero) {
  using namespace symbols;
  const std::vector<int> ids(8, 0);
  const SideTensor doc("doc", TensorView(ids.data(), {8}));
  const score::Extent extent{2, 4, 6, 9, 3};
  const auto fit = [&](const Expression& keep) {
    return refusal([&] { mask(keep).node()->require_fit(extent); });
  };
  EXPECT_THAT(fit(doc[k] == 0), HasSubstr("axis 0 is read at k, which reaches 8"));
  EXPECT_THAT(fit(doc[q + off] == 0), HasSubstr("which reaches 8"));
  EXPECT_THAT(fit(doc[q] == 0), HasSubstr("nothing was refused"));
  const SideTensor two("two", TensorView(ids.data(), {2})), one("one", TensorView(ids.data(), {1}));
  EXPECT_THAT(fit(two[head] == 0), HasSubstr("axis 0 is read at head, which reaches 3"));
  EXPECT_THAT(fit(two[kv_head] == 0), HasSubstr("axis 0 is read at kv_head, which reaches 2"));
  EXPECT_THAT(fit(two[symbols::batch] == 0), HasSubstr("nothing was refused"));
  EXPECT_THAT(fit(one[kv_head] + one[head] + one[k] == 0), HasSubstr("nothing was refused"));
  EXPECT_THAT(fit(doc[k - 1] == 0), HasSubstr("nothing was refused"));
  EXPECT_THAT(fit(q % Scalar("n", 0) == 0), HasSubstr("scalar n is 0"));
  EXPECT_THAT(fit(q % Scalar("n", 2) == 0), HasSubstr("nothing was refused"));
}

}  // namespace
}  // namespace tilefold
