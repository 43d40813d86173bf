// The bf16 kernels, step by step, against plain double arithmetic; and what must not reach a
// result: memory behind the rows, neighbouring lanes, the tail of a tile.
#include "cpu/bf16_kernels.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "support/random.hpp"
#include "tilefold/dtype.hpp"

namespace tilefold::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint16_t nan_bits = 0x7fff;

std::uint16_t to_bf16(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return std::uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// 64-byte aligned memory, every byte 0xff at first: bf16 and f32 NaNs.
class Poisoned {
 public:
  explicit Poisoned(std::size_t bytes) : bytes_((bytes + 63) / 64 * 64 + 64) {
    data_.reset(static_cast<unsigned char*>(std::aligned_alloc(64, bytes_)));
    std::memset(data_.get(), 0xff, bytes_);
  }
  template <class T> T* as() const { return reinterpret_cast<T*>(data_.get()); }

 private:
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  std::size_t bytes_;
  std::unique_ptr<unsigned char, Free> data_;
};

/// Rows of bf16 whose last element is the last of a page: the next page may not be touched.
class GuardedRows {
 public:
  GuardedRows(int rows, int columns, int gap)
      : rows_(rows), columns_(columns), stride_(columns + gap) {
    const std::size_t page = std::size_t(sysconf(_SC_PAGESIZE));
    const std::size_t used = sizeof(std::uint16_t) * (std::size_t(rows - 1) * stride_ + columns);
    mapped_ = (used + page - 1) / page * page + page;
    base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(base_, MAP_FAILED);
    char* guard = static_cast<char*>(base_) + mapped_ - page;
    EXPECT_EQ(mprotect(guard, page, PROT_NONE), 0);
    data_ = reinterpret_cast<std::uint16_t*>(guard - used);
    std::fill(data_, data_ + used / sizeof *data_, nan_bits);
  }
  ~GuardedRows() { munmap(base_, mapped_); }
  GuardedRows(const GuardedRows&) = delete;
  GuardedRows& operator=(const GuardedRows&) = delete;

  GuardedRows& fill(tilefold::testing::Random& random) {
    for (int r = 0; r < rows_; ++r)
      for (int c = 0; c < columns_; ++c) at(r, c) = to_bf16(float(random.normal()));
    return *this;
  }
  std::uint16_t& at(int row, int column) { return data_[std::size_t(row) * stride_ + column]; }
  float value(int row, int column) { return to_float(bfloat16{at(row, column)}); }
  TileRows tile() const { return {data_, std::int64_t(stride_), rows_, columns_}; }

 private:
  int rows_, columns_;
  std::size_t stride_, mapped_ = 0;
  void* base_ = nullptr;
  std::uint16_t* data_ = nullptr;
};

/// Running state of one tile of query rows, and the working memory of the steps.
struct Machine {
  const TileKernel<float>& kernel;
  int lanes, value_dim;
  Poisoned scores, weights, max, sum, output;

  Machine(const TileKernel<float>& k, int value_columns)
      : kernel(k),
        lanes(k.lanes()),
        value_dim(value_columns),
        scores(sizeof(float) * std::size_t(k.tile_keys() * k.lanes())),
        weights(k.weight_bytes()),
        max(sizeof(float) * std::size_t(k.lanes())),
        sum(sizeof(float) * std::size_t(k.lanes())),
        output(sizeof(float) * std::size_t(k.lanes() * value_columns)) {
    std::fill(max.as<float>(), max.as<float>() + lanes, -infinity);
    std::fill(sum.as<float>(), sum.as<float>() + lanes, 0.0f);
    std::fill(output.as<float>(), output.as<float>() + lanes * value_dim, 0.0f);
  }
  float& score(int key, int lane) { return scores.as<float>()[key * lanes + lane]; }
  float out(int column, int lane) const { return output.as<float>()[column * lanes + lane]; }
  void compute_scores(const TileRows& query, const TileRows& keys, float scale) {
    const Poisoned packed_query(kernel.packed_query_bytes(query.columns));
    const Poisoned packed_keys(kernel.packed_key_bytes(keys.columns));
    kernel.pack_query(query, packed_query.as<void>());
    kernel.pack_key(keys, packed_keys.as<void>());
    kernel.scores(packed_query.as<void>(), keys, packed_keys.as<void>(), scale, scores.as<float>());
  }
  void absorb(int keys, WeightParts parts = WeightParts::one) {
    kernel.absorb(scores.as<float>(), keys, value_dim,
                  {max.as<float>(), sum.as<float>(), output.as<float>()}, parts,
                  weights.as<void>());
  }
  void accumulate(const TileRows& values) {
    const Poisoned packed(kernel.packed_value_bytes(values.columns));
    kernel.pack_value(values, packed.as<void>());
    kernel.accumulate(weights.as<void>(), values, packed.as<void>(), output.as<float>());
  }
};

void expect_same_bits(float a, float b, const std::string& where) {
  std::uint32_t left, right;
  std::memcpy(&left, &a, sizeof left);
  std::memcpy(&right, &b, sizeof right);
  EXPECT_EQ(left, right) << where << ": " << a << " and " << b;
}

struct KernelCase {
  const char* name;
  const TileKernel<float>* (*kernel)();
};

class Bf16Kernel : public ::testing::TestWithParam<KernelCase> {
 protected:
  void SetUp() override {
    kernel_ = GetParam().kernel();
    if (kernel_ == nullptr) GTEST_SKIP() << "this machine has no " << GetParam().name;
  }
  int between(int low, int high) { return random_.between(low, high); }
  void expect_rounded(WeightParts parts);

  const TileKernel<float>* kernel_ = nullptr;
  tilefold::testing::Random random_{7};
};

TEST_P(Bf16Kernel, StatesWhatItIs) {
  EXPECT_EQ(kernel_->element(), DType::bf16);
  EXPECT_LE(kernel_->lanes(), 64);
  EXPECT_EQ(kernel_->lanes() % 16, 0);
  EXPECT_LE(kernel_->tile_keys(), 64);
  for (int d : {1, 17, 64, 1024})
    for (std::size_t bytes : {kernel_->packed_query_bytes(d), kernel_->packed_key_bytes(d),
                              kernel_->packed_value_bytes(d), kernel_->weight_bytes()})
      EXPECT_EQ(bytes % 64, 0u) << "dim " << d;
}

// Also: nothing past a row, past the last row or in a row's padding is read (guard page, NaN gaps).
TEST_P(Bf16Kernel, ScoresAreScaledDotProducts) {
  const float scale = 0.37f;
  for (int d : {1,  2,  3,   15,  16,  17,  31,  32,  33,  63,   64,  65,
                80, 96, 127, 128, 129, 192, 256, 511, 576, 1023, 1024}) {
    const int keys = between(1, kernel_->tile_keys()), rows = between(1, kernel_->lanes());
    GuardedRows q(rows, d, between(0, 5)), k(keys, d, between(0, 5));
    q.fill(random_);
    k.fill(random_);
    Machine m(*kernel_, 1);
    m.compute_scores(q.tile(), k.tile(), scale);
    for (int j = 0; j < keys; ++j)
      for (int i = 0; i < rows; ++i) {
        double dot = 0, size = 0;
        for (int c = 0; c < d; ++c) {
          const double product = double(q.value(i, c)) * double(k.value(j, c));
          dot += product;
          size += std::abs(product);
        }
        ASSERT_NEAR(m.score(j, i), scale * dot, scale * size * 1e-6)
            << "dim " << d << " key " << j << " of " << keys << " row " << i << " of " << rows;
      }
  }
}

TEST_P(Bf16Kernel, ScoresTakeEveryNumberOfKeysAndRows) {
  const int d = 37;
  for (int n = 1; n <= kernel_->tile_keys(); ++n) {
    const int rows = 1 + (n - 1) % kernel_->lanes();
    GuardedRows q(rows, d, 1), k(n, d, 1);
    q.fill(random_);
    k.fill(random_);
    Machine m(*kernel_, 1);
    m.compute_scores(q.tile(), k.tile(), 1.0f);
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < rows; ++i) {
        double dot = 0;
        for (int c = 0; c < d; ++c) dot += double(q.value(i, c)) * double(k.value(j, c));
        ASSERT_NEAR(m.score(j, i), dot, 1e-4) << "key " << j << " of " << n << " row " << i;
      }
  }
}

// The weights' layout is the kernel's own: values that are the identity bring them to light.
TEST_P(Bf16Kernel, AbsorbAndAccumulateFollowTheOnlineSoftmax) {
  for (int value_dim : {1, 2, 15, 16, 17, 32, 40, 63, 64, 100, 128, 257, 512, 1000, 1024}) {
    Machine m(*kernel_, value_dim);
    std::vector<double> top(m.lanes, -infinity);
    std::vector<std::vector<double>> scores(m.lanes);
    std::vector<std::vector<float>> values;
    for (int tile = 0; tile < 4; ++tile) {
      const int keys = between(1, kernel_->tile_keys());
      GuardedRows v(keys, value_dim, between(0, 5));
      v.fill(random_);
      // Tile 2 raises the maximum by far, tile 3 by less than a kernel may overlook.
      const double middle = tile == 2 ? 60 : tile == 3 ? 63 : 0;
      for (int j = 0; j < keys; ++j) {
        values.emplace_back();
        for (int c = 0; c < value_dim; ++c) values.back().push_back(v.value(j, c));
        for (int i = 0; i < m.lanes; ++i) {
          m.score(j, i) = float(middle + 2 * random_.normal());
          scores[i].push_back(m.score(j, i));
          top[i] = std::max(top[i], scores[i].back());
        }
      }
      m.absorb(keys);
      m.accumulate(v.tile());
    }
    for (int i = 0; i < m.lanes; ++i) {
      const double reference = double(m.max.as<float>()[i]);
      ASSERT_LE(reference, top[i]) << "lane " << i;
      ASSERT_GE(reference, top[i] - 8.0) << "lane " << i;
      double sum = 0;
      for (double s : scores[i]) sum += std::exp(s - reference);
      ASSERT_NEAR(m.sum.as<float>()[i], sum, 3e-6 * sum)
          << "value_dim " << value_dim << " lane " << i;
      for (int c = 0; c < value_dim; ++c) {
        double want = 0, size = 0;
        for (std::size_t j = 0; j < values.size(); ++j) {
          const double term = std::exp(scores[i][j] - reference) * double(values[j][c]);
          want += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(m.out(c, i), want, size / 256) << "column " << c << " of " << value_dim;
      }
    }
  }
}

// Rounding to bf16 costs a weight up to 2^-8 of itself; the sum must not carry it.
TEST_P(Bf16Kernel, WeightsAreRoundedToNearestAndTheSumIsNot) {
  for (const WeightParts parts : {WeightParts::one, WeightParts::two}) expect_rounded(parts);
}

/// Two parts hold 16 bits of a weight, one part 8. Rests below the normal floats are flushed.
void Bf16Kernel::expect_rounded(WeightParts parts) {
  const double half_unit = parts == WeightParts::one ? 1.0 / 256 : 1.0 / 65536;
  const double smallest = std::numeric_limits<float>::min();
  const int keys = kernel_->tile_keys() - 1;
  Machine m(*kernel_, keys);
  GuardedRows identity(keys, keys, 3);
  for (int j = 0; j < keys; ++j)
    for (int c = 0; c < keys; ++c) identity.at(j, c) = to_bf16(j == c ? 1.0f : 0.0f);
  for (int j = 0; j < keys; ++j)
    for (int i = 0; i < m.lanes; ++i)
      m.score(j, i) = j == 0 ? 3.0f : 3.0f - 80.0f * float(between(0, 1 << 20)) / float(1 << 20);
  m.absorb(keys, parts);
  const std::vector<float> scores(m.scores.as<float>(), m.scores.as<float>() + keys * m.lanes);
  m.accumulate(identity.tile());
  for (int i = 0; i < m.lanes; ++i) {
    double sum = 0;
    for (int j = 0; j < keys; ++j) {
      const double weight = std::exp(double(scores[std::size_t(j * m.lanes + i)]) - 3.0);
      sum += weight;
      EXPECT_NEAR(m.out(j, i), weight, weight * (half_unit + 1e-5) + smallest)
          << "key " << j << " lane " << i;
    }
    EXPECT_NEAR(m.sum.as<float>()[i], sum, 1e-6 * sum) << "lane " << i;
    EXPECT_EQ(m.out(0, i), 1.0f) << "the largest score weighs exactly 1";
  }
}

TEST_P(Bf16Kernel, HiddenKeysWeighExactlyNothing) {
  const int keys = kernel_->tile_keys() - 3, value_dim = 33;
  Machine m(*kernel_, value_dim);
  GuardedRows v(keys, value_dim, 0);
  v.fill(random_);
  for (int i = 0; i < m.lanes; ++i)
    for (int j = 0; j < keys; ++j) m.score(j, i) = i % 3 == 0 || j % 2 == 0 ? -infinity : -1e30f;
  m.absorb(keys);
  m.accumulate(v.tile());
  for (int i = 0; i < m.lanes; ++i) {
    const bool empty = i % 3 == 0;
    EXPECT_EQ(m.max.as<float>()[i], empty ? -infinity : -1e30f) << "lane " << i;
    EXPECT_EQ(m.sum.as<float>()[i], empty ? 0.0f : float(keys / 2)) << "lane " << i;
    for (int c = 0; c < value_dim; ++c) {
      double want = 0;
      for (int j = 1; j < keys && !empty; j += 2) want += double(v.value(j, c));
      EXPECT_NEAR(m.out(c, i), want, 1e-4) << "lane " << i << " column " << c;
    }
  }
  // A row that has seen nothing so far is an ordinary row afterwards.
  for (int i = 0; i < m.lanes; ++i) m.score(0, i) = 2.0f;
  GuardedRows one(1, value_dim, 0);
  one.fill(random_);
  m.absorb(1);
  m.accumulate(one.tile());
  for (int i = 0; i < m.lanes; ++i) {
    EXPECT_EQ(m.sum.as<float>()[i], 1.0f) << "lane " << i;
    for (int c = 0; c < value_dim; ++c)
      EXPECT_EQ(m.out(c, i), one.value(0, c)) << "lane " << i << " column " << c;
  }
}

// All lanes of the tile at once, where a kernel may pass over the whole tile.
TEST_P(Bf16Kernel, ATileThatNobodySeesChangesNothing) {
  Machine m(*kernel_, 20);
  GuardedRows v(5, 20, 0);
  v.fill(random_);
  std::fill(m.scores.as<float>(), m.scores.as<float>() + 5 * m.lanes, -infinity);
  m.absorb(5);
  m.accumulate(v.tile());
  for (int i = 0; i < m.lanes; ++i) {
    EXPECT_EQ(m.max.as<float>()[i], -infinity);
    EXPECT_EQ(m.sum.as<float>()[i], 0.0f);
    for (int c = 0; c < 20; ++c) expect_same_bits(m.out(c, i), 0.0f, "column " + std::to_string(c));
  }
}

TEST_P(Bf16Kernel, NaNScoresStayInTheirLane) {
  const int keys = 21, value_dim = 18;
  GuardedRows v(keys, value_dim, 0);
  v.fill(random_);
  std::vector<float> plain(std::size_t(keys * kernel_->lanes()));
  for (float& s : plain) s = float(random_.normal());
  // A payload of all ones must not turn into a number when it is rounded; nor a NaN beside -inf.
  float all_ones;
  const std::uint32_t payload = 0x7fffffff;
  std::memcpy(&all_ones, &payload, sizeof all_ones);
  for (float bad : {not_a_number, all_ones, infinity})
    for (int key : {0, 1, 7, keys - 1})
      for (float others : {0.0f, -infinity}) {
        Machine clean(*kernel_, value_dim), dirty(*kernel_, value_dim);
        std::copy(plain.begin(), plain.end(), clean.scores.as<float>());
        std::copy(plain.begin(), plain.end(), dirty.scores.as<float>());
        for (int j = 0; j < keys; ++j) dirty.score(j, 5) += others;
        dirty.score(key, 5) = bad;
        for (Machine* m : {&clean, &dirty}) {
          m->absorb(keys);
          m->accumulate(v.tile());
        }
        for (int i = 0; i < clean.lanes; ++i)
          for (int c = 0; c < value_dim; ++c) {
            const std::string where = "key " + std::to_string(key) + " lane " + std::to_string(i);
            if (i == 5)
              EXPECT_TRUE(std::isnan(dirty.out(c, i))) << where;
            else
              expect_same_bits(clean.out(c, i), dirty.out(c, i), where);
          }
        EXPECT_TRUE(std::isnan(dirty.sum.as<float>()[5]));
        EXPECT_NE(dirty.max.as<float>()[5], -infinity) << "an empty row would lose its NaN";
        EXPECT_EQ(clean.sum.as<float>()[4], dirty.sum.as<float>()[4]);
      }
}

TEST_P(Bf16Kernel, NaNInputsReachTheirScores) {
  GuardedRows q(3, 40, 0), k(4, 40, 0);
  q.fill(random_);
  k.fill(random_);
  q.at(1, 39) = 0x7fc0;
  k.at(2, 0) = 0x7f80;  // infinity
  Machine m(*kernel_, 1);
  m.compute_scores(q.tile(), k.tile(), 1.0f);
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(std::isfinite(m.score(j, i)), i != 1 && j != 2) << "key " << j << " row " << i;
}

TEST_P(Bf16Kernel, VeryLargeScoresKeepTheirDifferences) {
  Machine m(*kernel_, 1);
  for (int i = 0; i < m.lanes; ++i) {
    const float large = i % 2 == 0 ? 1e30f : -1e30f;
    m.score(0, i) = large;
    m.score(1, i) = large;
    m.score(2, i) = i % 2 == 0 ? -1e30f : -3e38f;
    m.score(3, i) = large;
  }
  m.absorb(4);
  for (int i = 0; i < m.lanes; ++i) EXPECT_EQ(m.sum.as<float>()[i], 3.0f) << "lane " << i;
  for (int i = 0; i < m.lanes; ++i) m.score(0, i) = 3e38f;
  m.absorb(1);
  for (int i = 0; i < m.lanes; ++i) EXPECT_EQ(m.sum.as<float>()[i], 1.0f) << "lane " << i;
}

/// All steps over two tiles of keys.
void attend(Machine& m, const TileRows& query, const std::vector<TileRows>& tiles) {
  for (const TileRows& kv : tiles) {
    m.compute_scores(query, kv, 0.6f);
    m.absorb(kv.rows);
    m.accumulate(kv);
  }
}

TEST_P(Bf16Kernel, ALaneDependsOnItsRowOnly) {
  const int d = 72, lanes = kernel_->lanes();
  GuardedRows q(lanes, d, 0), first(kernel_->tile_keys(), d, 0), second(29, d, 0);
  q.fill(random_);
  first.fill(random_);
  second.fill(random_);
  const std::vector<TileRows> tiles{first.tile(), second.tile()};
  Machine all(*kernel_, d);
  attend(all, q.tile(), tiles);
  for (int row = 0; row < lanes; ++row) {
    Machine alone(*kernel_, d);
    TileRows one = q.tile();
    one.data = static_cast<const std::uint16_t*>(one.data) + row * one.row_stride;
    one.rows = 1;
    attend(alone, one, tiles);
    const std::string where = "row " + std::to_string(row);
    expect_same_bits(alone.max.as<float>()[0], all.max.as<float>()[row], where);
    expect_same_bits(alone.sum.as<float>()[0], all.sum.as<float>()[row], where);
    for (int c = 0; c < d; ++c) expect_same_bits(alone.out(c, 0), all.out(c, row), where);
  }
}

// A mask hides what is behind a row's last key: how long the tile is must not matter.
TEST_P(Bf16Kernel, HiddenKeysAtATilesEndChangeNoBit) {
  const int d = 48;
  GuardedRows q(kernel_->lanes(), d, 0), kv(kernel_->tile_keys(), d, 0);
  q.fill(random_);
  kv.fill(random_);
  for (int keys = 1; keys < kernel_->tile_keys(); keys += 1 + keys / 5) {
    TileRows shorter = kv.tile();
    shorter.rows = keys;
    Machine cut(*kernel_, d), hidden(*kernel_, d);
    attend(cut, q.tile(), {shorter});
    hidden.compute_scores(q.tile(), kv.tile(), 0.6f);
    for (int j = keys; j < kernel_->tile_keys(); ++j)
      for (int i = 0; i < hidden.lanes; ++i) hidden.score(j, i) = -infinity;
    hidden.absorb(kernel_->tile_keys());
    hidden.accumulate(kv.tile());
    for (int i = 0; i < cut.lanes; ++i) {
      const std::string where = std::to_string(keys) + " keys, lane " + std::to_string(i);
      expect_same_bits(cut.sum.as<float>()[i], hidden.sum.as<float>()[i], where);
      for (int c = 0; c < d; ++c) expect_same_bits(cut.out(c, i), hidden.out(c, i), where);
    }
  }
}

TEST_P(Bf16Kernel, BracketsChangeNoBit) {
  GuardedRows q(kernel_->lanes(), 64, 0), kv(50, 64, 0);
  q.fill(random_);
  kv.fill(random_);
  Machine plain(*kernel_, 64), bracketed(*kernel_, 64);
  attend(plain, q.tile(), {kv.tile()});
  kernel_->begin_thread();
  attend(bracketed, q.tile(), {kv.tile()});
  kernel_->end_thread();
  attend(plain, q.tile(), {kv.tile()});
  attend(bracketed, q.tile(), {kv.tile()});
  for (int i = 0; i < plain.lanes; ++i)
    for (int c = 0; c < 64; ++c)
      expect_same_bits(plain.out(c, i), bracketed.out(c, i), "lane " + std::to_string(i));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Bf16Kernel,
                         ::testing::Values(KernelCase{"Avx512", bf16_avx512_kernel},
                                           KernelCase{"Amx", bf16_amx_kernel}),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace tilefold::cpu
