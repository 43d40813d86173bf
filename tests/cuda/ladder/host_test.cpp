// The float32 rungs of the ladder as they are written, on the CPU, against float64: tails, masks,
// rows that see nothing, memory that nobody may read.
#include "cuda/ladder/block_on_host.hpp"
// After the words that it defines:
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "cuda/kernels/ladder/naive.cuh"
#include "cuda/kernels/ladder/tile.cuh"
#include "cuda/kernels/ladder/v1.cuh"
#include "cuda/kernels/ladder/v2.cuh"
#include "support/random.hpp"

namespace tilefold::cuda::ladder {

// What shared_plan() finds; as large as the largest plan.
alignas(64) char shared_memory[sizeof(tile::Plan<128>)];

namespace {

using testing::Random;
using testing::run_blocks;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Memory on a boundary of 16 bytes, NaN in front of the numbers and behind them.
class Guarded {
 public:
  explicit Guarded(std::size_t count) : packs_(2 * guard + (count + 3) / 4), count_(count) {
    for (Pack<float>& pack : packs_)
      for (float& x : pack.element) x = nan;
  }
  float* begin() { return packs_[guard].element; }
  float* end() { return begin() + count_; }
  bool guards_stand() {
    const float* first = packs_.front().element;
    const float* last = packs_.back().element + 4;
    const auto is_nan = [](float x) { return std::isnan(x); };
    return std::all_of(first, static_cast<const float*>(begin()), is_nan) &&
           std::all_of(static_cast<const float*>(end()), last, is_nan);
  }

 private:
  static constexpr std::size_t guard = 64;
  std::vector<Pack<float>> packs_;
  std::size_t count_;
};

struct Problem {
  Shape shape;
  Guarded query, key, value, out, workspace;

  explicit Problem(const Shape& of)
      : shape(of),
        query(count(of.query_length)),
        key(count(of.key_length)),
        value(count(of.key_length)),
        out(count(of.query_length)),
        workspace(std::size_t(of.heads_in_all()) * std::size_t(of.query_length) *
                  std::size_t(of.key_length + 2)) {
    Random random(std::uint64_t(of.query_length * 1009 + of.key_length));
    for (Guarded* tensor : {&query, &key, &value})
      for (float& x : *tensor) x = float(random.normal());
    for (char& byte : shared_memory) byte = char(0xff);
  }
  std::size_t count(int length) const {
    return std::size_t(shape.heads_in_all()) * std::size_t(length) * std::size_t(shape.head_dim);
  }
  Operands<float> operands() {
    return {query.begin(), key.begin(), value.begin(), out.begin(), workspace.begin()};
  }
  int query_tiles(int tile) const {
    return shape.heads_in_all() * tiles_over(shape.query_length, tile);
  }
};

/// What the kernels' keys_seen() has to say, from the definition: j <= i + Sk - Sq.
int keys_seen(const Shape& shape, int query) {
  if (shape.visible == Visible::all_keys) return shape.key_length;
  return std::clamp(query + shape.key_length - shape.query_length + 1, 0, shape.key_length);
}

/// The largest difference from float64 over the first `rows` rows of each head; infinite where an
/// output is not a number.
double worst_difference(Problem& problem, int rows) {
  const Shape& s = problem.shape;
  double worst = 0;
  for (int head = 0; head < s.heads_in_all(); ++head)
    for (int row = 0; row < rows; ++row) {
      const float* const query =
          problem.query.begin() + s.head_offset(head, s.query_length) + row * s.row_stride();
      const auto at = [&](Guarded& tensor, int key, int d) {
        return double(tensor.begin()[s.head_offset(head, s.key_length) + key * s.row_stride() + d]);
      };
      const int seen = keys_seen(s, row);
      std::vector<double> weights(std::size_t(seen), 0.0);
      double largest = -INFINITY, sum = 0;
      for (int key = 0; key < seen; ++key) {
        double& score = weights[std::size_t(key)];
        for (int d = 0; d < s.head_dim; ++d) score += double(query[d]) * at(problem.key, key, d);
        largest = std::max(largest, score *= double(s.scale));
      }
      for (double& weight : weights) sum += weight = std::exp(weight - largest);
      for (int d = 0; d < s.head_dim; ++d) {
        double exact = 0;
        for (int key = 0; key < seen; ++key)
          exact += weights[std::size_t(key)] / sum * at(problem.value, key, d);
        const float got =
            problem.out.begin()[s.head_offset(head, s.query_length) + row * s.row_stride() + d];
        const double difference = std::abs(double(got) - exact);
        worst = difference <= worst ? worst : std::isnan(difference) ? INFINITY : difference;
      }
    }
  return worst;
}

template <int head_dim> void run_naive(Problem& problem) {
  const Operands<float> operands = problem.operands();
  const Shape shape = problem.shape;
  const int rows = shape.heads_in_all() * shape.query_length;
  run_blocks(problem.query_tiles(naive::tile) * tiles_over(shape.key_length, naive::tile),
             naive::threads, [&] { naive::scores<head_dim>(operands, shape); });
  run_blocks(tiles_over(rows, naive::warps), naive::threads,
             [&] { naive::probabilities<head_dim>(operands, shape); });
  run_blocks(problem.query_tiles(naive::tile), naive::threads,
             [&] { naive::weighted_sum<head_dim>(operands, shape); });
}

template <int head_dim> void run_v1(Problem& problem) {
  const Operands<float> operands = problem.operands();
  const Shape shape = problem.shape;
  run_blocks(shape.heads_in_all(), v1::threads, [&] { v1::forward<head_dim>(operands, shape); });
}

template <int head_dim> void run_tile(Problem& problem) {
  const Operands<float> operands = problem.operands();
  const Shape shape = problem.shape;
  run_blocks(problem.query_tiles(tile::rows), tile::threads,
             [&] { tile::forward<head_dim>(operands, shape); });
}

template <int head_dim> void run_v2(Problem& problem) {
  const Operands<float> operands = problem.operands();
  const Shape shape = problem.shape;
  run_blocks(problem.query_tiles(v2::rows), v2::threads,
             [&] { v2::forward<head_dim>(operands, shape); });
}

struct HostRung {
  const char* name;
  int head_dim;
  void (*run)(Problem&);
};

class LadderOnHost : public ::testing::TestWithParam<HostRung> {};

TEST_P(LadderOnHost, MatchesFloat64OnEveryRow) {
  const struct {
    int query, key;
  } all[] = {{1, 1}, {5, 5}, {64, 64}, {65, 65}, {70, 130}, {67, 3}, {66, 5}, {2, 0}};
  for (const Visible visible : {Visible::all_keys, Visible::causal})
    for (const auto lengths : all) {
      Problem problem({.batch = lengths.query < 10 ? 2 : 1,
                       .heads = 2,
                       .query_length = lengths.query,
                       .key_length = lengths.key,
                       .head_dim = GetParam().head_dim,
                       .visible = visible,
                       .scale = 0.125f});
      GetParam().run(problem);
      EXPECT_LE(worst_difference(problem, lengths.query), 4e-6)
          << "Sq " << lengths.query << ", Sk " << lengths.key
          << (visible == Visible::causal ? ", causal" : "");
      EXPECT_TRUE(problem.out.guards_stand()) << "wrote outside the output";
    }
}

// A loop that goes on over hidden tiles would meet the NaN: its weight is 0, and 0 * NaN is NaN.
// Only the naive rung walks everything.
TEST_P(LadderOnHost, TilesThatNoRowSeesAreNotVisited) {
  if (GetParam().run == run_naive<64> || GetParam().run == run_naive<128>)
    GTEST_SKIP() << "the naive rung multiplies hidden keys by 0";
  Problem problem({.batch = 1,
                   .heads = 1,
                   .query_length = 128,
                   .key_length = 128,
                   .head_dim = GetParam().head_dim,
                   .visible = Visible::causal,
                   .scale = 0.125f});
  std::fill(problem.value.begin() + 64 * GetParam().head_dim, problem.value.end(), nan);
  GetParam().run(problem);
  EXPECT_LE(worst_difference(problem, 64), 4e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Rungs, LadderOnHost,
    ::testing::Values(HostRung{"naive", 64, run_naive<64>}, HostRung{"naive", 128, run_naive<128>},
                      HostRung{"v1", 64, run_v1<64>}, HostRung{"v1", 128, run_v1<128>},
                      HostRung{"tile", 64, run_tile<64>}, HostRung{"tile", 128, run_tile<128>},
                      HostRung{"v2", 64, run_v2<64>}, HostRung{"v2", 128, run_v2<128>}),
    [](const auto& tested) {
      return std::string(tested.param.name) + "_" + std::to_string(tested.param.head_dim);
    });

}  // namespace

}  // namespace tilefold::cuda::ladder
