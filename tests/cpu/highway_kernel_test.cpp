// Laws of the f32 and f64 tile kernels and of their exp and tanh, on every Highway target that this
// machine can run.
#include "cpu/highway_kernel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "cpu/score_steps.hpp"

namespace tilefold::cpu {
namespace {

template <class F> const TileKernel<F>& kernel_of(LaneCount lanes) {
  if constexpr (std::is_same_v<F, float>)
    return highway_f32_kernel(lanes);
  else
    return highway_f64_kernel(lanes);
}

/// 64-byte aligned elements; NaN until they are set.
template <class F> class Aligned {
 public:
  explicit Aligned(std::size_t count) : size_(count) {
    const std::size_t bytes = (count * sizeof(F) + 63) / 64 * 64 + 64;
    data_.reset(static_cast<F*>(std::aligned_alloc(64, bytes)));
    std::fill(data_.get(), data_.get() + count, std::numeric_limits<F>::quiet_NaN());
  }
  F* data() { return data_.get(); }
  F& operator[](std::size_t i) { return data_.get()[i]; }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(F* p) const { std::free(p); }
  };
  std::unique_ptr<F, Free> data_;
  std::size_t size_;
};

/// One tile: `rows` used lanes, `keys` keys, D columns of keys and of values.
template <class F> struct Tile {
  Tile(const TileKernel<F>& k, int rows, int keys, int columns, unsigned seed)
      : kernel(k),
        used(rows),
        count(keys),
        d(columns),
        lanes(k.lanes()),
        query(std::size_t(rows * columns)),
        // Exactly sized: a read past a row's end is the sanitizer's to find.
        key(std::size_t(keys * columns)),
        value(std::size_t(keys * columns)),
        packed(std::size_t(columns * lanes)),
        scores(std::size_t(64 * lanes)),
        max(std::size_t(lanes)),
        sum(std::size_t(lanes)),
        output(std::size_t(columns * lanes)),
        packed_value(kernel.packed_value_bytes(columns) / sizeof(F)) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> number(-1, 1);
    for (F& x : query) x = F(number(random));
    for (F& x : key) x = F(number(random));
    for (F& x : value) x = F(number(random));
    for (int lane = 0; lane < lanes; ++lane) {
      max[std::size_t(lane)] = -std::numeric_limits<F>::infinity();
      sum[std::size_t(lane)] = 0;
    }
    for (std::size_t i = 0; i < output.size(); ++i) output[i] = 0;
  }
  void score() {
    kernel.pack_query({query.data(), d, used, d}, packed.data());
    kernel.scores(packed.data(), {key.data(), d, count, d}, nullptr, F(0.25), scores.data());
  }
  void fold() {
    kernel.absorb(scores.data(), count, d, {max.data(), sum.data(), output.data()},
                  WeightParts::one, scores.data());
    const TileRows values{value.data(), d, count, d};
    kernel.pack_value(values, packed_value.data());
    kernel.accumulate(scores.data(), values, packed_value.data(), output.data());
  }
  F& score_at(int k, int lane) { return scores[std::size_t(k * lanes + lane)]; }

  const TileKernel<F>& kernel;
  int used, count, d, lanes;
  std::vector<F> query, key, value;
  Aligned<F> packed, scores, max, sum, output, packed_value;
};

/// Binds each target in turn and returns to the best.
class EveryTarget : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { bind_highway_target(GetParam()); }
  void TearDown() override { bind_highway_target(0); }
};
using HighwayKernel = EveryTarget;
using VectorMath = EveryTarget;

template <class F> void expect_attention(const TileKernel<F>& kernel, int rows, int keys, int d) {
  SCOPED_TRACE(testing::Message() << kernel.name() << " lanes " << kernel.lanes() << " rows "
                                  << rows << " keys " << keys << " columns " << d);
  Tile<F> tile(kernel, rows, keys, d, unsigned(rows * 7919 + keys * 31 + d));
  const double eps = sizeof(F) == 4 ? 4e-7 : 1e-15;
  tile.score();
  std::vector<double> exact(std::size_t(keys * rows));
  for (int k = 0; k < keys; ++k)
    for (int r = 0; r < rows; ++r) {
      double dot = 0, size = 0;
      for (int c = 0; c < d; ++c) {
        const double term =
            double(tile.query[std::size_t(r * d + c)]) * double(tile.key[std::size_t(k * d + c)]);
        dot += term;
        size += std::abs(term);
      }
      exact[std::size_t(k * rows + r)] = double(tile.score_at(k, r));
      ASSERT_NEAR(double(tile.score_at(k, r)), 0.25 * dot, eps * (size + 1))
          << "key " << k << " row " << r;
    }
  tile.fold();
  for (int r = 0; r < rows; ++r) {
    double max = -INFINITY, sum = 0;
    for (int k = 0; k < keys; ++k) max = std::max(max, exact[std::size_t(k * rows + r)]);
    for (int k = 0; k < keys; ++k) sum += std::exp(exact[std::size_t(k * rows + r)] - max);
    ASSERT_EQ(double(tile.max[std::size_t(r)]), max) << "row " << r;
    ASSERT_NEAR(double(tile.sum[std::size_t(r)]), sum, 4 * eps * sum) << "row " << r;
    for (int c = 0; c < d; ++c) {
      double o = 0;
      for (int k = 0; k < keys; ++k)
        o += std::exp(exact[std::size_t(k * rows + r)] - max) *
             double(tile.value[std::size_t(k * d + c)]);
      ASSERT_NEAR(double(tile.output[std::size_t(c * tile.lanes + r)]), o, 4 * eps * sum)
          << "row " << r << " column " << c;
    }
  }
}

TEST_P(HighwayKernel, EqualsDoubleArithmetic) {
  for (const LaneCount lanes : {LaneCount::wide, LaneCount::narrow})
    for (const int d : {1, 2, 3, 7, 8, 13, 31, 64, 80, 96, 127, 128, 256, 1024})
      for (const int keys : {1, 2, 5, 8, 15, 33, 63, 64}) {
        const TileKernel<float>& single = kernel_of<float>(lanes);
        const TileKernel<double>& twice = kernel_of<double>(lanes);
        const int part = 1 + (d * 5 + keys) % single.lanes();
        expect_attention(single, part, keys, d);
        expect_attention(twice, std::min(part, twice.lanes()), keys, d);
        if (d > 128) break;
      }
}

template <class F> void expect_independent_lanes() {
  // The same row alone in a narrow kernel, alone in a wide one, and between others.
  Tile<F> alone(kernel_of<F>(LaneCount::narrow), 1, 61, 77, 5);
  Tile<F> wide(kernel_of<F>(LaneCount::wide), 1, 61, 77, 5);
  Tile<F> crowded(kernel_of<F>(LaneCount::wide), kernel_of<F>(LaneCount::wide).lanes(), 61, 77, 6);
  crowded.key = alone.key;
  crowded.value = alone.value;
  const int lane = crowded.lanes - 2;
  std::copy(alone.query.begin(), alone.query.end(), crowded.query.begin() + lane * alone.d);
  wide.key = alone.key, wide.value = alone.value, wide.query = alone.query;
  for (Tile<F>* tile : {&alone, &wide, &crowded})
    for (int times = 0; times < 2; ++times) {  // twice: the second tile meets an older maximum
      tile->score();
      for (int k = 0; k < tile->count; ++k)  // and raises it
        for (int l = 0; l < tile->lanes; ++l) tile->score_at(k, l) += F(times) / F(3);
      tile->fold();
    }
  const auto same = [](F a, F b) { return std::memcmp(&a, &b, sizeof(F)) == 0; };
  for (Tile<F>* tile : {&wide, &crowded}) {
    const std::size_t at = tile == &crowded ? std::size_t(lane) : 0;
    EXPECT_TRUE(same(alone.max[0], tile->max[at]));
    EXPECT_TRUE(same(alone.sum[0], tile->sum[at]));
    for (int c = 0; c < alone.d; ++c)
      ASSERT_TRUE(same(alone.output[std::size_t(c * alone.lanes)],
                       tile->output[std::size_t(c * tile->lanes) + at]))
          << "column " << c << " of lane " << at;
  }
}

TEST_P(HighwayKernel, BitsOfALaneDependOnItsRowOnly) {
  expect_independent_lanes<float>();
  expect_independent_lanes<double>();
}

template <class F> void expect_special_scores() {
  constexpr F infinite = std::numeric_limits<F>::infinity();
  Tile<F> tile(kernel_of<F>(LaneCount::wide), 4, 9, 3, 1);
  tile.score();
  for (int k = 0; k < 9; ++k) {
    tile.score_at(k, 0) = -infinite;                      // sees nothing
    tile.score_at(k, 1) = k == 4 ? F(-1e30) : -infinite;  // one very low score is a score
    tile.score_at(k, 2) = k == 3 ? F(NAN) : -infinite;    // NaN among hidden keys
    tile.score_at(k, 3) = k == 8 ? F(NAN) : F(k);         // NaN at the end
  }
  tile.fold();
  EXPECT_EQ(tile.max[0], -infinite);
  EXPECT_EQ(tile.sum[0], F(0));
  EXPECT_EQ(tile.output[0], F(0));
  EXPECT_EQ(tile.max[1], F(-1e30));
  EXPECT_EQ(tile.sum[1], F(1));
  EXPECT_EQ(tile.output[1], tile.value[4 * 3]);
  for (const std::size_t lane : {2u, 3u}) {
    EXPECT_TRUE(std::isnan(tile.sum[lane])) << lane;
    EXPECT_TRUE(std::isnan(tile.max[lane])) << lane << ": NaN must not pass for an empty row";
    EXPECT_TRUE(std::isnan(tile.output[lane])) << lane;
  }
  // A later tile of ordinary scores must not bring the NaN rows back.
  tile.score();
  tile.fold();
  EXPECT_TRUE(std::isnan(tile.max[2]) && std::isnan(tile.sum[2]) && std::isnan(tile.output[2]));
  EXPECT_FALSE(std::isnan(tile.sum[0]) || std::isnan(tile.sum[1]));
}

TEST_P(HighwayKernel, HiddenKeysWeighNothingAndNaNStays) {
  expect_special_scores<float>();
  expect_special_scores<double>();
}

/// exp(x) as absorb() computes it, for x <= 0: a second key of score 0 is the maximum.
template <class F> F weight_of(F x) {
  Tile<F> tile(kernel_of<F>(LaneCount::narrow), 1, 2, 1, 1);
  for (int lane = 0; lane < tile.lanes; ++lane) {
    tile.score_at(0, lane) = x;
    tile.score_at(1, lane) = 0;
  }
  tile.kernel.absorb(tile.scores.data(), 2, 1,
                     {tile.max.data(), tile.sum.data(), tile.output.data()}, WeightParts::one,
                     tile.scores.data());
  return tile.scores[0];
}

template <class F> void expect_exp(double relative, double lowest) {
  for (int i = 0; i <= 4000; ++i) {
    const F x = F(lowest * i / 4000);
    const double exact = std::exp(double(x));
    ASSERT_NEAR(double(weight_of(x)), exact, relative * exact) << "exp of " << x;
  }
  EXPECT_EQ(weight_of(F(0)), F(1));
  EXPECT_EQ(weight_of(F(-1e-30)), F(1));
  for (const F x : {F(lowest * 1.02), F(-1e6), std::numeric_limits<F>::lowest(),
                    -std::numeric_limits<F>::infinity()})
    EXPECT_EQ(weight_of(x), F(0)) << "exp of " << x;
  EXPECT_TRUE(std::isnan(weight_of(F(NAN))));
}

TEST_P(VectorMath, Exp) {
  expect_exp<float>(2e-7, -87.3);
  expect_exp<double>(1e-15, -708);
}

template <class F> F tanh_of(F x) {
  alignas(64) F lanes[16];
  std::fill(lanes, lanes + 16, x);
  soft_cap(lanes, 16, 1.0);
  return lanes[0];
}

TEST_P(VectorMath, Tanh) {
  for (int i = -3000; i <= 3000; ++i) {
    const float x = float(std::pow(10.0, std::abs(i) / 500.0 - 4) * (i < 0 ? -1 : 1));
    const double exact = std::tanh(double(x));
    ASSERT_NEAR(double(tanh_of(x)), exact, 1e-6 * std::abs(exact)) << "tanh of " << x;
    ASSERT_NEAR(tanh_of(double(x)), exact, 1e-15) << "tanh of " << x;
  }
  EXPECT_EQ(tanh_of(0.0f), 0.0f);
  EXPECT_EQ(tanh_of(INFINITY), 1.0f);
  EXPECT_EQ(tanh_of(-INFINITY), -1.0f);
  EXPECT_EQ(tanh_of(std::numeric_limits<float>::lowest()), -1.0f);
  EXPECT_TRUE(std::isnan(tanh_of(NAN)));
}

TEST_P(VectorMath, LinearBias) {
  alignas(64) float scores[3 * 16], slope[16];
  alignas(64) std::int32_t first[16];
  for (int lane = 0; lane < 16; ++lane) {
    slope[lane] = 0.5f * float(lane);
    first[lane] = 100000 - 3 * lane;
    for (int key = 0; key < 3; ++key) scores[key * 16 + lane] = 1.0f;
  }
  add_linear_bias(scores, 3, 16, LinearBias<float>{slope, first, -2});
  for (int key = 0; key < 3; ++key)
    for (int lane = 0; lane < 16; ++lane)
      EXPECT_EQ(scores[key * 16 + lane],
                1.0f + 0.5f * float(lane) * float(100000 - 3 * lane - 2 * key))
          << "key " << key << " lane " << lane;
}

INSTANTIATE_TEST_SUITE_P(Targets, HighwayKernel, testing::Range(0, highway_target_count()));
INSTANTIATE_TEST_SUITE_P(Targets, VectorMath, testing::Range(0, highway_target_count()));

}  // namespace
}  // namespace tilefold::cpu
