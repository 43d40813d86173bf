// Bits: the number of threads changes none, and in batch-invariant mode neither do a row's
// neighbours nor the way its prefill was chunked.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tilefold/attention.hpp"

namespace tilefold {
namespace {

std::vector<float> waves(std::size_t count, float phase) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = std::sin(phase + 0.61f * float(i % 7919));
  return x;
}

struct Shape {
  int batch, queries, keys, heads, kv_heads, dim;
};

std::vector<float> run(const Shape& s, int threads, Reproducibility mode) {
  const auto q = waves(std::size_t(s.batch * s.queries * s.heads * s.dim), 0.1f);
  const auto k = waves(std::size_t(s.batch * s.keys * s.kv_heads * s.dim), 0.2f);
  const auto v = waves(std::size_t(s.batch * s.keys * s.kv_heads * s.dim), 0.3f);
  std::vector<float> out(q.size());
  Options options;
  options.mask = causal();
  options.threads = threads;
  options.reproducibility = mode;
  attend(TensorView(q.data(), {s.batch, s.queries, s.heads, s.dim}),
         TensorView(k.data(), {s.batch, s.keys, s.kv_heads, s.dim}),
         TensorView(v.data(), {s.batch, s.keys, s.kv_heads, s.dim}),
         OutputView(out.data(), {s.batch, s.queries, s.heads, s.dim}), options);
  return out;
}

TEST(Reproducible, TheNumberOfThreadsChangesNoBit) {
  for (const Shape& s :
       {Shape{1, 300, 300, 4, 2, 64}, Shape{1, 1, 9000, 8, 1, 128}, Shape{3, 5, 4100, 2, 2, 40}}) {
    const std::vector<float> one = run(s, 1, Reproducibility::same_plan);
    for (const int threads : {2, 3, 16})
      EXPECT_EQ(std::memcmp(run(s, threads, Reproducibility::same_plan).data(), one.data(),
                            one.size() * sizeof(float)),
                0)
          << s.queries << " queries, " << s.keys << " keys on " << threads << " threads";
  }
}

// One sequence of `keys` rows; rows [first, last) as a chunk over the keys before its end.
std::vector<float> chunk(const std::vector<float>& q, const std::vector<float>& k,
                         const std::vector<float>& v, int first, int last) {
  constexpr int heads = 2, dim = 32;
  const int rows = int(q.size()) / heads / dim;
  const TensorView query(q.data(), {1, rows, heads, dim}), key(k.data(), {1, rows, 1, dim});
  const TensorView value(v.data(), {1, rows, 1, dim});
  std::vector<float> out(std::size_t((last - first) * heads * dim));
  Options options;
  options.mask = causal();
  options.threads = 1;
  options.reproducibility = Reproducibility::batch_invariant;
  attend(query.slice(1, first, last), key.slice(1, 0, last), value.slice(1, 0, last),
         OutputView(out.data(), {1, last - first, heads, dim}), options);
  return out;
}

TEST(Reproducible, BatchInvariantRowsDoNotDependOnChunks) {
  constexpr int rows = 9001;  // more than two invariant splits
  const auto q = waves(std::size_t(rows * 2 * 32), 0.4f), k = waves(std::size_t(rows * 32), 0.5f);
  const auto v = waves(std::size_t(rows * 32), 0.6f);
  const std::vector<float> tail = chunk(q, k, v, 8900, rows);
  for (const auto& [first, last] : {std::pair{8900, 8901}, {8901, 8950}, {8950, 9001}}) {
    const std::vector<float> part = chunk(q, k, v, first, last);
    EXPECT_EQ(std::memcmp(part.data(), tail.data() + (first - 8900) * 64, part.size() * 4), 0)
        << "rows " << first << " to " << last;
  }
  const std::vector<float> early = chunk(q, k, v, 4000, 4300), alone = chunk(q, k, v, 4099, 4100);
  EXPECT_EQ(std::memcmp(alone.data(), early.data() + 99 * 64, 64 * 4), 0);
}

}  // namespace
}  // namespace tilefold
