// What rungs are compared with: which rows, and float64 attention of them.
#include "bench/cuda/ladder_check.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tilefold::bench {
namespace {

using cuda::ladder::Shape;
using cuda::ladder::Visible;

TEST(LadderCheck, SampledRowsHoldTheFirstAndTheLast) {
  EXPECT_EQ(sampled_rows(1, 24), (std::vector<int>{0}));
  EXPECT_EQ(sampled_rows(3, 24), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(sampled_rows(0, 24), std::vector<int>{});
  const std::vector<int> rows = sampled_rows(16384, 24);
  EXPECT_EQ(rows.size(), 24u);
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), 16383);
}

TEST(LadderCheck, ExactRowsAreAttention) {
  // Two keys whose scores differ by log 3: weights 1/4 and 3/4; the first query sees the first key
  // alone.
  Shape shape = {.query_length = 2,
                 .key_length = 2,
                 .head_dim = 64,
                 .visible = Visible::causal,
                 .scale = 0.5f};
  HostHead head{0, std::vector<double>(128), std::vector<double>(128), std::vector<double>(128)};
  head.query[64] = 2 * std::log(3.0);
  head.key[64] = 1;
  head.value[0] = 4, head.value[64] = 8;
  const auto rows = exact_rows(shape, std::span(&head, 1), 24);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].out[0], 4);
  EXPECT_NEAR(rows[1].out[0], 4 * 0.25 + 8 * 0.75, 1e-12);
  EXPECT_EQ(rows[1].out[1], 0);
}

TEST(LadderCheck, ARowThatSeesNothingIsZero) {
  const Shape shape = {
      .query_length = 2, .key_length = 1, .head_dim = 64, .visible = Visible::causal};
  const HostHead head{0, std::vector<double>(128, 1.0), std::vector<double>(64, 1.0),
                      std::vector<double>(64, 5.0)};
  const auto rows = exact_rows(shape, std::span(&head, 1), 24);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].out, std::vector<double>(64, 0.0));
  EXPECT_EQ(rows[1].out, std::vector<double>(64, 5.0));
}

TEST(LadderCheck, ANaNIsTheLargestDifference) {
  const ExactRow exact{0, 0, {1, -3}};
  Difference difference;
  const std::vector<double> close = {1.5, -3}, lost = {std::nan(""), -3};
  difference.take(exact, close);
  EXPECT_EQ(difference.error, 0.5);
  EXPECT_EQ(difference.reference, 3);
  difference.take(exact, lost);
  difference.take(exact, close);
  EXPECT_EQ(difference.error, std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace tilefold::bench
