// Law: weights in two 16-bit parts keep the accuracy rule for heads of any size; rounded weights
// keep it from 2048 outputs a head on, and break it in heads of few. A maximum that lags behind
// keeps it where a score moves it that would weigh an eighth of the row's sum. docs/numerics.md
// holds the tables.
//
// A head is simulated: normal values in bf16, scores of a given size, softmax in float32, sums in
// float32. "Eager" rounds the normalised weights, a kernel rounds the others and divides at the
// end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/random.hpp"
#include "tilefold/dtype.hpp"

namespace tilefold::testing {
namespace {

float to_bf16(float x) { return to_float(round_to<bfloat16>(x)); }

struct Head {
  int rows, columns, keys;
  float score_size;
  bool float32_output;
};

/// Largest errors of a head, and the largest element.
struct Errors {
  double eager = 0, rounded = 0, two_parts = 0, largest = 0;
  double allowed() const { return 2 * eager + 1e-5 * largest; }
};

void add_element(Errors& errors, const Head& head, const std::vector<float>& scores, float top,
                 const std::vector<float>& values, int column) {
  double exact = 0, exact_sum = 0;
  float sum = 0, eager = 0, rounded = 0, two_parts = 0;
  for (const float s : scores) sum += std::exp(s - top);
  for (int k = 0; k < head.keys; ++k) {
    const float w = std::exp(scores[std::size_t(k)] - top), first = to_bf16(w);
    const float v = values[std::size_t(k * head.columns + column)];
    exact += std::exp(double(scores[std::size_t(k)]) - double(top)) * double(v);
    exact_sum += std::exp(double(scores[std::size_t(k)]) - double(top));
    eager += to_bf16(w / sum) * v;
    rounded += first * v;
    two_parts += first * v;
    two_parts += to_bf16(w - first) * v;
  }
  exact /= exact_sum;
  const auto error = [&](float x) {
    return std::abs(double(head.float32_output ? x : to_bf16(x)) - exact);
  };
  errors.eager = std::max(errors.eager, error(eager));
  errors.rounded = std::max(errors.rounded, error(rounded / sum));
  errors.two_parts = std::max(errors.two_parts, error(two_parts / sum));
  errors.largest = std::max(errors.largest, std::abs(exact));
}

Errors simulate(const Head& head, Random& random) {
  std::vector<float> values(std::size_t(head.keys * head.columns));
  for (float& v : values) v = to_bf16(float(random.normal()));
  Errors errors;
  std::vector<float> scores(std::size_t(head.keys));
  for (int row = 0; row < head.rows; ++row) {
    for (float& s : scores) s = head.score_size * float(random.normal());
    const float top = *std::max_element(scores.begin(), scores.end());
    for (int c = 0; c < head.columns; ++c) add_element(errors, head, scores, top, values, c);
  }
  return errors;
}

struct Tally {
  int draws = 0, rounded_breaks = 0, two_parts_break = 0;
  double rounded_worst = 0, two_parts_worst = 0;
};

Tally tally(int rows, int columns, int draws, bool float32_output) {
  Tally t;
  Random random(7);
  for (const int keys : {2, 3, 5, 10, 30, 100})
    for (const float size : {0.3f, 1.0f, 3.0f})
      for (int draw = 0; draw < draws; ++draw) {
        const Errors e = simulate({rows, columns, keys, size, float32_output}, random);
        ++t.draws;
        t.rounded_breaks += e.rounded > e.allowed();
        t.two_parts_break += e.two_parts > e.allowed();
        t.rounded_worst = std::max(t.rounded_worst, e.rounded / e.allowed());
        t.two_parts_worst = std::max(t.two_parts_worst, e.two_parts / e.allowed());
      }
  return t;
}

TEST(WeightRounding, TwoPartsKeepTheRuleWhereRoundedWeightsBreakIt) {
  for (const bool float32_output : {false, true}) {
    const Tally few = tally(1, 5, 300, float32_output);
    EXPECT_GT(few.rounded_breaks, few.draws / 100) << "short heads would need nothing";
    EXPECT_EQ(few.two_parts_break, 0);
    const Tally row = tally(1, 128, 60, float32_output);
    EXPECT_EQ(row.two_parts_break, 0);
    EXPECT_LE(std::max(few.two_parts_worst, row.two_parts_worst), 0.6);
  }
}

TEST(WeightRounding, RoundedWeightsKeepTheRuleFromTheBorderOn) {
  for (const bool float32_output : {false, true}) {
    const Tally border = tally(16, 128, 6, float32_output);
    EXPECT_EQ(border.rounded_breaks, 0) << border.rounded_worst;
  }
}

/// When a score that passes the maximum moves it: where it would weigh `share` of the row's sum, or
/// passes it by 8 in the exponent.
struct Lag {
  float share;
  float slack(float sum) const { return std::clamp(std::log2(sum * share), 0.0f, 8.0f); }
};
constexpr Lag whatever_its_share{0}, kernels{1.0f / 8};

/// One row over key tiles, its sums in float32: O += round(exp2(s - top)) V.
class LaggingRow {
 public:
  LaggingRow(int columns, Lag lag) : lag_(lag), output_(std::size_t(columns)) {}

  void fold(const float* scores, const float* values, int keys) {
    const float tile_top = *std::max_element(scores, scores + keys);
    if (tile_top - top_ > slack_) {
      const float factor = std::exp2(top_ - tile_top);
      top_ = tile_top, sum_ *= factor;
      for (float& o : output_) o *= factor;
      slack_ = lag_.share == 0 ? 8.0f : lag_.slack(sum_);
    }
    for (int k = 0; k < keys; ++k) {
      const float weight = std::exp2(scores[k] - top_), rounded = to_bf16(weight);
      sum_ += weight;
      for (std::size_t c = 0; c < output_.size(); ++c)
        output_[c] += rounded * values[std::size_t(k) * output_.size() + c];
    }
  }
  float out(int column) const { return output_[std::size_t(column)] / sum_; }

 private:
  Lag lag_;
  float top_ = -INFINITY, sum_ = 0, slack_ = 0;
  std::vector<float> output_;
};

/// The largest error of a head, of what is allowed, by each of the lags.
std::vector<double> lagging_head(const std::vector<Lag>& lags, Random& random) {
  constexpr int rows = 64, columns = 32, keys = 256, tile = 64;
  std::vector<float> values(std::size_t(keys) * columns), scores(keys);
  for (float& v : values) v = to_bf16(float(random.normal()));
  double allowed = 0;
  std::vector<double> worst(lags.size());
  for (int r = 0; r < rows; ++r) {
    for (float& s : scores) s = 1.5f * float(random.normal());
    const float top = *std::max_element(scores.begin(), scores.end());
    float sum = 0;
    for (const float s : scores) sum += std::exp2(s - top);
    std::vector<LaggingRow> by_lag;
    for (const Lag lag : lags) {
      by_lag.emplace_back(columns, lag);
      for (int k = 0; k < keys; k += tile)
        by_lag.back().fold(&scores[std::size_t(k)], &values[std::size_t(k) * columns], tile);
    }
    for (int c = 0; c < columns; ++c) {
      double exact = 0, exact_sum = 0;
      float eager = 0;
      for (int k = 0; k < keys; ++k) {
        const float s = scores[std::size_t(k)], v = values[std::size_t(k) * columns + c];
        const double weight = std::exp2(double(s) - double(top));
        exact += weight * double(v), exact_sum += weight;
        eager += to_bf16(std::exp2(s - top) / sum) * v;
      }
      exact /= exact_sum;
      allowed = std::max(allowed, 2 * std::abs(double(eager) - exact) + 1e-5 * std::abs(exact));
      for (std::size_t i = 0; i < lags.size(); ++i)
        worst[i] = std::max(worst[i], std::abs(double(by_lag[i].out(c)) - exact));
    }
  }
  for (double& w : worst) w /= allowed;
  return worst;
}

TEST(WeightRounding, AMaximumMayLagWhereTheScoreCountsLittle) {
  Random random(12);
  std::vector<double> worst(2);
  for (int draw = 0; draw < 400; ++draw) {
    const std::vector<double> of_head = lagging_head({kernels, whatever_its_share}, random);
    for (std::size_t i = 0; i < worst.size(); ++i) worst[i] = std::max(worst[i], of_head[i]);
  }
  EXPECT_LE(worst[0], 0.8);
  EXPECT_GT(worst[1], 1.0) << "any lag would do";
}

}  // namespace
}  // namespace tilefold::testing
