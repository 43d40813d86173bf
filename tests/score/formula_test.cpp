// Laws of formulas: the tile's answer agrees with every element, all readings of an element agree,
// the derivative agrees with finite differences, and compositions mean what they say.
#include "tilefold/formula.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tilefold/error.hpp"

namespace tilefold {
namespace {

using score::Interval;
using score::Place;
using score::TilePositions;
using score::Truth;

constexpr int positions = 12;
const std::vector<int> document_ids = {0, 0, 0, 1, 1, 2, 2, 2, 2, 0, 0, 3,
                                       7, 7, 7, 1, 1, 1, 1, 1, 2, 2, 2, 2};
const std::vector<int> prefix_lengths = {5, 0};

struct NamedMask {
  std::string name;
  Mask mask;
};

std::vector<NamedMask> masks() {
  const TensorView ids(document_ids.data(), {2, positions});
  const TensorView lengths(prefix_lengths.data(), {2});
  const Mask dilated = mask(
      [](auto q, auto k, auto at) {
        using score::floor_mod;
        return floor_mod(q + at.offset - k, 3) == 0;
      },
      "dilated");
  const Mask jagged = mask<Reading::elements>(
      [](auto q, auto k, auto) { return (q * 7 + k * 3) % 5 < 3; }, "jagged");
  std::vector<NamedMask> all = {{"everything", Mask()},
                                {"causal", causal()},
                                {"window 2, 1", window(2, 1)},
                                {"window 3, unbounded", window(3)},
                                {"window unbounded, 0", window(-1, 0)},
                                {"window 0, 0", window(0, 0)},
                                {"prefix 4", prefix(4)},
                                {"prefix lengths", prefix(lengths)},
                                {"documents", documents(ids)},
                                {"dilated lambda", dilated},
                                {"jagged lambda", jagged},
                                {"functor", mask(score::Causal{} && score::Window{1, -1})},
                                {"functor or not", mask(!score::Causal{} || score::Window{1, 0})}};
  const std::vector<NamedMask> simple = all;
  for (const NamedMask& a : simple) {
    all.push_back({"!(" + a.name + ")", !a.mask});
    for (const NamedMask& b : simple) {
      all.push_back({a.name + " && " + b.name, a.mask && b.mask});
      all.push_back({a.name + " || " + b.name, a.mask || b.mask});
    }
  }
  return all;
}

bool keeps(const Mask& mask, int q, int k, const Place& at) {
  if (!mask.node()) return true;
  unsigned char flag = 7;
  mask.node()->keep({q, 1, 1, k, 1, 1, at}, &flag, 1);
  return flag == 1;
}

std::vector<Place> places() {
  return {{0, 0, 0, 6, 9, 3}, {1, 1, 0, 9, 5, -4}, {1, 0, 0, 12, 12, 0}};
}

TEST(Masks, TheTileAnswerAgreesWithEveryElement) {
  for (const NamedMask& m : masks()) {
    if (!m.mask.node()) continue;
    for (const Place& at : places())
      for (int q0 = 0; q0 < at.query_length; ++q0)
        for (int q1 = q0; q1 < at.query_length; q1 += 2)
          for (int k0 = 0; k0 < at.key_length; ++k0)
            for (int k1 = k0; k1 < at.key_length; k1 += 3) {
              bool every = true, any = false;
              for (int q = q0; q <= q1; ++q)
                for (int k = k0; k <= k1; ++k) {
                  const bool kept = keeps(m.mask, q, k, at);
                  every = every && kept;
                  any = any || kept;
                }
              const Truth answer = m.mask.node()->classify({q0, q1}, {k0, k1}, at);
              ASSERT_TRUE(!answer.yes() || every)
                  << m.name << " all of " << q0 << ".." << q1 << " x " << k0 << ".." << k1;
              ASSERT_TRUE(!answer.no() || !any)
                  << m.name << " none of " << q0 << ".." << q1 << " x " << k0 << ".." << k1;
            }
  }
}

TEST(Masks, BuiltInAnswersAreSharp) {
  const TensorView ids(document_ids.data(), {2, positions});
  for (const Mask& m : {causal(), window(2, 1), window(3), window(0, 0), prefix(4)})
    for (const Place& at : places())
      for (int q0 = 0; q0 < at.query_length; ++q0)
        for (int k0 = 0; k0 < at.key_length; ++k0) {
          const int q1 = std::min(q0 + 2, at.query_length - 1);
          const int k1 = std::min(k0 + 2, at.key_length - 1);
          bool every = true, any = false;
          for (int q = q0; q <= q1; ++q)
            for (int k = k0; k <= k1; ++k) {
              every = every && keeps(m, q, k, at);
              any = any || keeps(m, q, k, at);
            }
          EXPECT_EQ(m.node()->classify({q0, q1}, {k0, k1}, at), Truth::of(every, any))
              << m.text() << " " << q0 << ".." << q1 << " x " << k0 << ".." << k1;
        }
}

TEST(Masks, ATileOfFlagsIsTheElementsOneByOne) {
  for (const NamedMask& m : masks()) {
    if (!m.mask.node()) continue;
    for (const Place& at : places()) {
      const TilePositions tile{at.query_length - 1, -1, at.query_length, 0, 1, at.key_length, at};
      std::vector<unsigned char> flags(64 * 64, 9);
      m.mask.node()->keep(tile, flags.data(), 64);
      for (int c = 0; c < tile.keys; ++c)
        for (int r = 0; r < 64; ++r) {
          if (r >= tile.queries)
            ASSERT_EQ(flags[c * 64 + r], 9) << m.name << " wrote past its queries";
          else
            ASSERT_EQ(flags[c * 64 + r], keeps(m.mask, at.query_length - 1 - r, c, at)) << m.name;
        }
    }
  }
}

TEST(Masks, PositionReadsWhatIntReads) {
  const auto check = [](const auto& functor, const char* name) {
    for (const Place& at : places())
      for (int q = 0; q < positions; ++q)
        for (int k = 0; k < positions; ++k)
          for (const int split : {0, 1, 5})
            EXPECT_EQ(score::decided(functor.keep(score::Position(q - split, split),
                                                  score::Position(k + split, -split), at)),
                      score::decided(functor.keep(q, k, at)))
                << name << " " << q << " " << k;
  };
  check(score::Causal{}, "causal");
  check(score::Window{2, 1}, "window");
  check(score::Window{-1, 3}, "half window");
  check(score::Causal{} && !score::Window{1, 1}, "composition");
}

TEST(Masks, WindowIsInclusiveAndAligned) {
  const Place at{0, 0, 0, 2, 6, 4};  // query 1 stands at key 5
  const Mask m = causal() && window(2);
  for (int k = 0; k < 6; ++k) EXPECT_EQ(keeps(m, 1, k, at), k >= 3) << k;
  for (int k = 0; k < 6; ++k) EXPECT_EQ(keeps(m, 0, k, at), k >= 2 && k <= 4) << k;
}

TEST(Masks, DocumentsReadTheQueryAtItsAlignedPosition) {
  const TensorView ids(document_ids.data(), {2, positions});
  const Place at{0, 0, 0, 3, 12, 9};
  for (int q = 0; q < 3; ++q)
    for (int k = 0; k < 12; ++k)
      EXPECT_EQ(keeps(documents(ids), q, k, at), document_ids[q + 9] == document_ids[k]);
}

TEST(Masks, TextNamesTheComposition) {
  EXPECT_EQ((causal() && window(4095)).text(), "causal && window(4095, -1)");
  EXPECT_EQ((causal() && (prefix(3) || window(1, 1))).text(),
            "causal && (prefix(3) || window(1, 1))");
  EXPECT_EQ((!causal()).text(), "!(causal)");
  EXPECT_EQ(Mask().text(), "all");
  EXPECT_EQ((Mask() && causal()).text(), "causal");
  EXPECT_EQ((Mask() || causal()).text(), "all");
}

struct NamedChange {
  std::string name;
  ScoreChange change;
};

std::vector<NamedChange> changes() {
  static const std::vector<float> slopes = {0.5f, 0.25f};
  static const std::vector<float> bias(2 * 1 * 12 * 12, 0.125f);
  const ScoreChange lambda = change(
      [](auto s, auto q, auto k, auto) {
        using S = decltype(s);
        return s * s + S(0.5f) * score::real<S>(abs(q - k));
      },
      "square");
  const ScoreChange quotient = change(
      [](auto s, auto, auto, auto) {
        using S = decltype(s);
        using score::exp;
        return S(3.0f) / (S(1.0f) + exp(-s));
      },
      "sigmoid");
  return {{"softcap", softcap(2.0)},
          {"alibi", alibi(TensorView(slopes.data(), {2}))},
          {"bias", additive_bias(TensorView(bias.data(), {2, 1, 12, 12}))},
          {"square", lambda},
          {"sigmoid", quotient},
          {"chain", softcap(2.0).then(alibi(TensorView(slopes.data(), {2}))).then(lambda)},
          {"other order", alibi(TensorView(slopes.data(), {2})).then(softcap(2.0))}};
}

double changed(const ScoreChange& change, double s, int q, int k, const Place& at) {
  change.node()->change({q, 1, 1, k, 1, 1, at}, &s, 1);
  return s;
}

TEST(Changes, TheDerivativeAgreesWithFiniteDifferences) {
  for (const NamedChange& c : changes())
    for (const Place& at : places())
      for (const double s : {-3.0, -0.7, 0.0, 0.4, 2.5}) {
        const int q = 2, k = 3;
        double value = s, slope = 1;
        c.change.node()->differentiate({q, 1, 1, k, 1, 1, at}, &value, &slope, 1);
        const double h = 1e-6;
        const double central =
            (changed(c.change, s + h, q, k, at) - changed(c.change, s - h, q, k, at)) / (2 * h);
        EXPECT_NEAR(slope, central, 1e-8) << c.name << " at " << s;
        EXPECT_DOUBLE_EQ(value, changed(c.change, s, q, k, at)) << c.name;
      }
}

TEST(Changes, ChainsApplyAsChained) {
  const Place at{0, 0, 0, 4, 4, 0};
  const std::vector<NamedChange> all = changes();
  const double alibi_term = 0.5 * (3 - 1);
  EXPECT_NEAR(changed(all[6].change, 1.0, 1, 3, at), 2.0 * std::tanh((1.0 + alibi_term) / 2.0),
              1e-12);
  EXPECT_EQ(all[6].change.text(), "alibi(slopes) then softcap(2)");
}

TEST(Changes, MinusInfinityHidesWhateverFollows) {
  const Place at{0, 0, 0, 4, 4, 0};
  static const std::vector<float> hide(1 * 1 * 4 * 4, -INFINITY);
  const ScoreChange hidden = additive_bias(TensorView(hide.data(), {1, 1, 4, 4}));
  const ScoreChange chain =
      hidden.then(softcap(2.0)).then(change([](auto s, auto, auto, auto) { return s * s; }));
  EXPECT_EQ(changed(chain, 1.0, 1, 2, at), -INFINITY);
  float narrow = 1;
  chain.node()->change({1, 1, 1, 2, 1, 1, at}, &narrow, 1);
  EXPECT_EQ(narrow, -INFINITY);
  double value = 1, slope = 1;
  chain.node()->differentiate({1, 1, 1, 2, 1, 1, at}, &value, &slope, 1);
  EXPECT_EQ(value, -INFINITY);
  EXPECT_EQ(slope, 0);
}

TEST(Changes, FloatAndDoubleAgree) {
  for (const NamedChange& c : changes())
    for (const Place& at : places()) {
      float s = 0.75f;
      c.change.node()->change({1, 1, 1, 2, 1, 1, at}, &s, 1);
      EXPECT_NEAR(s, changed(c.change, 0.75, 1, 2, at), 1e-6) << c.name;
    }
}

TEST(Changes, PositionsReadAsRealNumbersInTwoParts) {
  static const float slopes[] = {0.5f, 0.25f};
  const score::Alibi functor{slopes, 0};
  const Place at{0, 1, 0, 6, 9, 3};
  for (int q = 0; q < 6; ++q)
    for (int k = 0; k < 9; ++k)
      EXPECT_FLOAT_EQ(functor.change(1.0f, score::Position(q, 0), score::Position(k - 2, 2), at),
                      functor.change(1.0f, q, k, at));
}

TEST(AlibiSlopes, FollowThePaper) {
  float slopes[6];
  alibi_slopes(4, slopes);
  EXPECT_EQ(slopes[0], 0.25f);
  EXPECT_EQ(slopes[3], 0x1p-8f);
  alibi_slopes(6, slopes);  // four of 4, then every other of 8
  EXPECT_EQ(slopes[3], 0x1p-8f);
  EXPECT_EQ(slopes[4], 0.5f);
  EXPECT_EQ(slopes[5], 0x1p-3f);
}

TEST(Formulas, RefuseWhatTheyCannotRead) {
  using ::testing::HasSubstr;
  const auto refusal = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was refused";
  };
  const float reals[4] = {};
  const int ints[4] = {};
  EXPECT_THAT(refusal([] { softcap(0.0); }), HasSubstr("softcap is 0"));
  EXPECT_THAT(refusal([] { softcap(NAN); }), HasSubstr("must be positive"));
  EXPECT_THAT(refusal([] { prefix(-1); }), HasSubstr("prefix length is -1"));
  EXPECT_THAT(refusal([&] { documents(TensorView(reals, {4})); }), HasSubstr("must be i32"));
  EXPECT_THAT(refusal([&] { documents(TensorView(ints, {2, 2, 1})); }), HasSubstr("1 to 2 axes"));
  EXPECT_THAT(refusal([&] { alibi(TensorView(reals, {2}, {2})); }), HasSubstr("contiguous"));
  EXPECT_THAT(refusal([&] { additive_bias(TensorView(reals, {4})); }), HasSubstr("4 axes"));
  EXPECT_THAT(refusal([&] { prefix(TensorView()); }), HasSubstr("absent"));
  EXPECT_THAT(refusal([&] { documents(TensorView(ints, {0})); }), HasSubstr("no entries"));
}

}  // namespace
}  // namespace tilefold
