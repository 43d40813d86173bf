// Law: a mask as kernel data says of every element and every rectangle what the mask itself says.
#include "cuda/launch/formula_data.hpp"

#include <gtest/gtest.h>

#include "support/random_formula.hpp"

namespace tilefold::cuda {
namespace {

constexpr int positions = 40;

score::Place place_at(int offset) { return {0, 0, 0, positions, positions, offset}; }

bool node_keeps(const score::MaskNode& node, int q, int k, const score::Place& place) {
  unsigned char flag = 2;
  node.keep({q, 1, 1, k, 1, 1, place}, &flag, 1);
  return flag != 0;
}

void expect_same(const Mask& mask, const std::string& what) {
  std::string reason;
  const auto image = mask_image(mask.node(), reason);
  ASSERT_TRUE(image) << what << ": " << reason;
  for (const int offset : {-7, 0, 5})
    for (int q = 0; q < positions - 7; ++q)
      for (int k = 0; k < positions; ++k) {
        const score::Place place = place_at(offset);
        ASSERT_EQ(image->data.keep(q, k, place), node_keeps(*mask.node(), q, k, place))
            << what << " at q " << q << ", k " << k << ", offset " << offset;
      }
}

/// What is said of a rectangle must hold for each of its elements.
void expect_sound(const Mask& mask, const std::string& what) {
  std::string reason;
  const auto image = mask_image(mask.node(), reason);
  ASSERT_TRUE(image) << what;
  const score::Place place = place_at(2);
  for (int q = 0; q + 8 <= 32; q += 4)
    for (int k = 0; k + 8 <= 32; k += 4) {
      const score::Truth answer = image->data.classify({q, q + 7}, {k, k + 7}, place);
      for (int i = 0; i < 64; ++i) {
        const bool kept = node_keeps(*mask.node(), q + i / 8, k + i % 8, place);
        ASSERT_TRUE(kept ? !answer.no() : !answer.yes()) << what << " at q " << q << ", k " << k;
      }
    }
}

TEST(MaskData, AgreesWithTheMaskOnEveryElementAndRectangle) {
  std::vector<std::int32_t> ids(positions + 8);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = int(i / 7);
  const Mask document = documents(TensorView(ids.data(), {std::int64_t(ids.size())}));
  const std::pair<const char*, Mask> masks[] = {
      {"causal", causal()},
      {"window", window(5, 3)},
      {"one-sided window", window(-1, 2)},
      {"causal && window", causal() && window(9)},
      {"prefix", prefix(6)},
      {"causal || prefix", causal() || prefix(6)},
      {"documents && causal", document && causal()},
      {"!documents", !document},
      {"!(causal || prefix) || window", !(causal() || prefix(3)) || window(2, 2)},
      {"(causal || prefix) && documents && window",
       (causal() || prefix(4)) && document && window(12)}};
  for (const auto& [what, mask] : masks) {
    expect_same(mask, what);
    expect_sound(mask, what);
  }
}

TEST(MaskData, CausalAndWindowsAreOneRangeWithoutAProgram) {
  std::string reason;
  const auto image = mask_image((causal() && window(9, 4) && window(20)).node(), reason);
  ASSERT_TRUE(image);
  EXPECT_TRUE(image->data.program.everything());
  EXPECT_EQ(image->data.range.low, -9);
  EXPECT_EQ(image->data.range.high, 0);
}

TEST(MaskData, CodeIsRefusedWithAReasonThatNamesTheWayOut) {
  std::string reason;
  const Mask code = mask([](auto q, auto k, auto) { return k <= q; }) && causal();
  EXPECT_FALSE(mask_image(code.node(), reason));
  EXPECT_NE(reason.find("compiled for its type"), std::string::npos) << reason;
  EXPECT_NE(reason.find("CPU"), std::string::npos) << reason;
}

TEST(MaskData, TooLongAProgramIsRefused) {
  Mask mask = causal() || prefix(1);
  for (int i = 0; i < 12; ++i) mask = mask || window(i, i);
  std::string reason;
  EXPECT_FALSE(mask_image(mask.node(), reason));
  EXPECT_NE(reason.find("more than"), std::string::npos) << reason;
}

TEST(ScoreSteps, NamedChangesComeFirstThenTheChainInOrder) {
  const std::vector<float> slopes = {0.5f, 0.25f};
  Problem problem;
  problem.options.softcap = 30.0;
  problem.tensors.alibi_slopes = TensorView(slopes.data(), {2});
  problem.options.score = softcap(5.0).then(alibi(TensorView(slopes.data(), {2})));
  std::string reason;
  const auto steps = score_steps(problem, reason);
  ASSERT_TRUE(steps);
  ASSERT_EQ(steps->size(), 4u);
  EXPECT_EQ((*steps)[0].cap, 30.0);
  EXPECT_TRUE((*steps)[1].of_problem);
  EXPECT_EQ((*steps)[2].cap, 5.0);
  EXPECT_FALSE((*steps)[3].of_problem);
}

}  // namespace
}  // namespace tilefold::cuda
