// Every rung of the ladder against float64, all rows: any length, Sq != Sk, causal or not, rows
// that see nothing, with outputs poisoned before and NaN behind every input. Without a device the
// comparisons are skipped; what the host decides alone is tested everywhere.
#include "cuda/launch/ladder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "bench/cuda/device.hpp"
#include "bench/cuda/production_rung.hpp"
#include "cuda/launch/ladder/entries.hpp"
#include "support/random.hpp"
#include "tilefold/dtype.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda::ladder {

/// What a test's list calls a rung.
void PrintTo(const Rung& rung, std::ostream* out) { *out << rung.name; }

namespace {

using bench::DeviceMemory;
using testing::Random;

/// Why no kernel can run here; empty where one can.
std::string no_device() {
  try {
    bench::require_device("this test");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

struct Lengths {
  int query, key;
};
constexpr Lengths all_lengths[] = {{1, 1},     {5, 5},     {63, 63},     {64, 64}, {65, 65},
                                   {127, 127}, {200, 200}, {1000, 1000}, {1, 200}, {70, 200},
                                   {200, 70},  {65, 1000}, {1000, 63},   {5, 0},   {3, 1}};

/// Numbers of one tensor, rounded to its element type, with the same number of NaNs behind them on
/// the device.
class Tensor {
 public:
  Tensor(std::int64_t count, Element element) : element_(element), numbers_(std::size_t(count)) {}

  template <class Draw> void fill(const Draw& draw) {
    for (double& x : numbers_) x = rounded(float(draw()));
  }
  double& operator[](std::int64_t i) { return numbers_[std::size_t(i)]; }
  double operator[](std::int64_t i) const { return numbers_[std::size_t(i)]; }

  /// Room for twice the numbers, all bits 1, then the numbers.
  DeviceMemory on_device() const {
    const std::size_t size = bytes_of(element_);
    DeviceMemory memory(std::max<std::size_t>(2 * numbers_.size() * size, 64));
    memory.poison();
    std::vector<unsigned char> bytes(numbers_.size() * size);
    for (std::size_t i = 0; i < numbers_.size(); ++i) store(bytes.data() + i * size, numbers_[i]);
    if (!bytes.empty()) memory.copy_from(bytes.data(), bytes.size());
    return memory;
  }
  /// Takes the numbers back; false where a byte behind them was written.
  bool read(const DeviceMemory& memory) {
    const std::size_t size = bytes_of(element_);
    std::vector<unsigned char> bytes(memory.bytes());
    memory.copy_to(bytes.data(), bytes.size());
    for (std::size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = load(bytes.data() + i * size);
    return std::all_of(bytes.begin() + std::ptrdiff_t(numbers_.size() * size), bytes.end(),
                       [](unsigned char byte) { return byte == 0xff; });
  }

 private:
  double rounded(float x) const {
    unsigned char bytes[4];
    store(bytes, double(x));
    return load(bytes);
  }
  void store(unsigned char* to, double x) const {
    const float value = float(x);
    const std::uint16_t bits = element_ == Element::float16 ? round_to<float16>(value).bits
                                                            : round_to<bfloat16>(value).bits;
    if (element_ == Element::float32)
      std::memcpy(to, &value, 4);
    else
      std::memcpy(to, &bits, 2);
  }
  double load(const unsigned char* from) const {
    if (element_ == Element::float32) {
      float x;
      std::memcpy(&x, from, 4);
      return double(x);
    }
    std::uint16_t bits;
    std::memcpy(&bits, from, 2);
    return double(element_ == Element::float16 ? to_float(float16{bits})
                                               : to_float(bfloat16{bits}));
  }

  Element element_;
  std::vector<double> numbers_;
};

struct Inputs {
  Tensor query, key, value;

  Inputs(const Shape& shape, Element element, std::uint64_t seed)
      : query(count(shape, shape.query_length), element),
        key(count(shape, shape.key_length), element),
        value(count(shape, shape.key_length), element) {
    Random random(seed);
    for (Tensor* tensor : {&query, &key, &value}) tensor->fill([&] { return random.normal(); });
  }
  static std::int64_t count(const Shape& shape, int length) {
    return std::int64_t(shape.heads_in_all()) * length * shape.head_dim;
  }
};

std::int64_t row_begin(const Shape& shape, int head, int length, int row) {
  return shape.head_offset(head, length) + row * shape.row_stride();
}

/// What the kernels' keys_seen() has to say, from the definition: j <= i + Sk - Sq.
int keys_seen(const Shape& shape, int query) {
  if (shape.visible == Visible::all_keys) return shape.key_length;
  return std::clamp(query + shape.key_length - shape.query_length + 1, 0, shape.key_length);
}

/// One row in float64: its output, zeros where it sees no key, and sum_j p_j |v_j|, the scale of
/// what rounding P may do.
struct ExactRow {
  std::vector<double> out, size;
};
ExactRow exact_row(const Shape& shape, const Inputs& inputs, int head, int query) {
  const int seen = keys_seen(shape, query);
  std::vector<double> weights(std::size_t(seen), 0.0);
  ExactRow row{std::vector<double>(std::size_t(shape.head_dim)),
               std::vector<double>(std::size_t(shape.head_dim))};
  const std::int64_t q = row_begin(shape, head, shape.query_length, query);
  double largest = -INFINITY, sum = 0;
  for (int key = 0; key < seen; ++key) {
    const std::int64_t k = row_begin(shape, head, shape.key_length, key);
    double& score = weights[std::size_t(key)];
    for (int d = 0; d < shape.head_dim; ++d) score += inputs.query[q + d] * inputs.key[k + d];
    score *= double(shape.scale);
    largest = std::max(largest, score);
  }
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  for (int key = 0; key < seen; ++key) {
    const std::int64_t v = row_begin(shape, head, shape.key_length, key);
    for (int d = 0; d < shape.head_dim; ++d) {
      const double part = weights[std::size_t(key)] / sum * inputs.value[v + d];
      row.out[std::size_t(d)] += part;
      row.size[std::size_t(d)] += std::abs(part);
    }
  }
  return row;
}

/// Runs a rung on poisoned memory; says so where it wrote behind its output.
Tensor run_on_device(const Rung& rung, const Shape& shape, const Inputs& inputs) {
  Tensor out(Inputs::count(shape, shape.query_length), rung.element);
  out.fill([] { return std::nan(""); });
  const DeviceMemory query = inputs.query.on_device(), key = inputs.key.on_device(),
                     value = inputs.value.on_device(), result = out.on_device();
  DeviceMemory workspace(std::max<std::size_t>(rung.workspace_bytes(shape), 64));
  workspace.poison();
  run(rung, shape, {query.data(), key.data(), value.data(), result.data(), workspace.data()},
      nullptr);
  bench::wait_for_device();
  EXPECT_TRUE(out.read(result)) << rung.name << " wrote behind its output";
  return out;
}

double unit_of(Element element) {
  return element == Element::float32 ? 0x1p-24 : element == Element::float16 ? 0x1p-11 : 0x1p-8;
}

/// float32 sums of some thousand terms of size 1, one rounding to the output's type, and one of
/// each weight where P is an operand of tensor cores.
double tolerance(const Rung& rung, const ExactRow& exact, int column) {
  return 1e-5 + unit_of(rung.element) * std::abs(exact.out[std::size_t(column)]) +
         unit_of(rung.weights) * exact.size[std::size_t(column)];
}

/// The first element of the output outside the tolerance, as text; empty where there is none.
std::string first_breach(const Rung& rung, const Shape& shape, const Inputs& inputs,
                         const Tensor& out) {
  for (int head = 0; head < shape.heads_in_all(); ++head)
    for (int query = 0; query < shape.query_length; ++query) {
      const ExactRow exact = exact_row(shape, inputs, head, query);
      const std::int64_t first = row_begin(shape, head, shape.query_length, query);
      for (int d = 0; d < shape.head_dim; ++d) {
        const double want = exact.out[std::size_t(d)], got = out[first + d];
        if (!(std::abs(got - want) <= tolerance(rung, exact, d)))
          return "head " + std::to_string(head) + ", query " + std::to_string(query) + ", column " +
                 std::to_string(d) + " is " + std::to_string(got) + ": it must be " +
                 std::to_string(want);
      }
    }
  return "";
}

Shape shape_of(Lengths lengths, int head_dim, Visible visible) {
  const bool small = lengths.query * lengths.key < 100000;
  return {.batch = small ? 2 : 1,
          .heads = small ? 3 : 2,
          .query_length = lengths.query,
          .key_length = lengths.key,
          .head_dim = head_dim,
          .visible = visible,
          .scale = 1 / std::sqrt(float(head_dim))};
}

std::string text_of(const Shape& shape) {
  return "Sq " + std::to_string(shape.query_length) + ", Sk " + std::to_string(shape.key_length) +
         ", head_dim " + std::to_string(shape.head_dim) +
         (shape.visible == Visible::causal ? ", causal" : "");
}

/// Why a rung cannot run here: there is no device, or it needs another one. Any other failure is a
/// test's own.
std::string cannot_run(const Rung& rung) {
  if (const std::string reason = no_device(); !reason.empty()) return reason;
  const Shape shape = shape_of({1, 1}, 64, Visible::all_keys);
  try {
    run_on_device(rung, shape, Inputs(shape, rung.element, 1));
    return "";
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return error.what();
  }
}

/// The rungs that are right: all but the one that shows a mistake. The production kernels among
/// them, one without its swizzle.
std::vector<Rung> right_rungs() {
  bench::add_production_rungs();
  std::vector<Rung> right(rungs().begin(), rungs().end());
  std::erase_if(right, [](const Rung& rung) { return rung.name == "half_f16_sums"; });
  return right;
}

class LadderRung : public ::testing::TestWithParam<Rung> {};

TEST_P(LadderRung, MatchesFloat64OnEveryRow) {
  if (const std::string reason = cannot_run(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  std::uint64_t seed = 1;
  for (const Visible visible : {Visible::all_keys, Visible::causal})
    for (const int head_dim : {64, 128})
      for (const Lengths lengths : all_lengths) {
        const Shape shape = shape_of(lengths, head_dim, visible);
        // TMA describes no tensor without rows: plan() takes another kernel, the rung has none.
        if (shape.key_length == 0 && GetParam().name.starts_with("sm90_") &&
            !GetParam().name.starts_with("sm90_minimal"))
          continue;
        const Inputs inputs(shape, GetParam().element, seed++);
        const Tensor out = run_on_device(GetParam(), shape, inputs);
        EXPECT_EQ(first_breach(GetParam(), shape, inputs, out), "") << text_of(shape);
      }
}

TEST_P(LadderRung, LargeScoresStayFinite) {
  if (const std::string reason = cannot_run(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  // Scores of some hundreds: exp of them overflows without the running maximum, and a rescale that
  // is left out loses everything before the last new maximum.
  const Shape shape = shape_of({70, 200}, 64, Visible::causal);
  Inputs inputs(shape, GetParam().element, 7);
  Random random(8);
  inputs.query.fill([&] { return 160 * random.normal(); });
  const Tensor out = run_on_device(GetParam(), shape, inputs);
  for (int head = 0; head < shape.heads_in_all(); ++head)
    for (int query = 0; query < shape.query_length; ++query) {
      const ExactRow exact = exact_row(shape, inputs, head, query);
      for (int d = 0; d < shape.head_dim; ++d) {
        const double got = out[row_begin(shape, head, shape.query_length, query) + d];
        // A float32 dot product of thousands in size is off by some 1e-4, and the weight with it.
        ASSERT_NEAR(got, exact.out[std::size_t(d)], 5e-3 + tolerance(GetParam(), exact, d))
            << "head " << head << ", query " << query << ", column " << d;
      }
    }
}

TEST_P(LadderRung, TheSameInputsGiveTheSameBits) {
  if (const std::string reason = cannot_run(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  const Shape shape = shape_of({200, 200}, 128, Visible::causal);
  const Inputs inputs(shape, GetParam().element, 9);
  const Tensor first = run_on_device(GetParam(), shape, inputs);
  for (int repeat = 0; repeat < 10; ++repeat) {
    const Tensor again = run_on_device(GetParam(), shape, inputs);
    for (std::int64_t i = 0; i < Inputs::count(shape, shape.query_length); ++i)
      ASSERT_EQ(first[i], again[i]) << "element " << i << " of repeat " << repeat;
  }
}

INSTANTIATE_TEST_SUITE_P(Ladder, LadderRung, ::testing::ValuesIn(right_rungs()),
                         [](const auto& tested) { return std::string(tested.param.name); });

// Equal scores and values in [0, 1): O is half the number of keys. A float16 sum stops growing
// where an addend is below half its spacing, at 1024 to 2048; a float32 sum does not.
TEST(LadderHalf, SumsInFloat16SpoilLongRows) {
  if (const std::string reason = no_device(); !reason.empty()) GTEST_SKIP() << reason;
  Shape shape = shape_of({1, 8192}, 64, Visible::all_keys);
  shape.batch = shape.heads = 1;
  Inputs inputs(shape, Element::float16, 10);
  Random random(11);
  inputs.query.fill([] { return 0.0; });
  inputs.value.fill([&] { return random.uniform(); });
  const std::vector<double> exact = exact_row(shape, inputs, 0, 0).out;
  const auto worst = [&](const char* name) {
    const Tensor out = run_on_device(rung_named(name), shape, inputs);
    double error = 0;
    for (int d = 0; d < shape.head_dim; ++d)
      error = std::max(error, std::abs(out[d] - exact[std::size_t(d)]));
    return error;
  };
  EXPECT_LE(worst("half_f16"), 5e-4) << "float32 sums: one rounding of 0.5";
  EXPECT_GE(worst("half_f16_sums"), 0.1) << "float16 sums: most of the row is lost";
}

/// A staged test runs in a copy of the repository, on a machine that did not build it.
std::filesystem::path source_root() {
  const std::filesystem::path built_from = TILEFOLD_SOURCE_DIR;
  return std::filesystem::exists(built_from) ? built_from : std::filesystem::current_path();
}

TEST(LadderTable, EveryRungDescribesItself) {
  std::set<std::string_view> names;
  bench::add_production_rungs();
  for (const Rung& rung : rungs()) {
    EXPECT_TRUE(names.insert(rung.name).second) << rung.name << " stands twice";
    EXPECT_FALSE(rung.adds.empty()) << rung.name;
    EXPECT_TRUE(std::filesystem::exists(source_root() / rung.source))
        << rung.name << " names no file: " << rung.source;
    EXPECT_GT(rung.code_lines, 20) << rung.name;
    EXPECT_EQ(&rung_named(rung.name), &rung);
  }
}

// docs/ladder.md works these numbers out: 4096 tokens of 32 heads of 64, batch 4.
TEST(LadderTable, TrafficIsWhatTheTextDerives) {
  const Shape shape = {.batch = 4, .heads = 32, .query_length = 4096, .key_length = 4096};
  const std::int64_t tensors = 4LL * 4 * 4096 * 32 * 64 * 4, scores = 128LL * 4096 * 4096 * 4;
  EXPECT_EQ(rung_named("naive").traffic(shape).compulsory, tensors + 4 * scores);
  EXPECT_EQ(std::int64_t(rung_named("naive").workspace_bytes(shape)), scores);
  // A head: K and V, O, m and l zeroed, then 64 key tiles of 4096 * (3 * 64 + 4) floats.
  EXPECT_EQ(rung_named("v1").traffic(shape).compulsory,
            128LL * 4 * (2 * 4096 * 64 + 4096 * 66 + 64 * 4096 * 196));
  EXPECT_EQ(rung_named("v2").traffic(shape).compulsory, tensors);
  // Q and O once, K and V for each of 64 query tiles.
  EXPECT_EQ(rung_named("v2").traffic(shape).requested, tensors / 2 + 64 * tensors / 2);
  EXPECT_EQ(rung_named("half_f16").traffic(shape).requested,
            rung_named("v2").traffic(shape).requested / 2);
  // 16 bits and tiles of 128 query rows.
  bench::add_production_rungs();
  for (const char* name : {"sm80_f16", "sm90_minimal_bf16"}) {
    EXPECT_EQ(rung_named(name).traffic(shape).compulsory, tensors / 2);
    EXPECT_EQ(rung_named(name).traffic(shape).requested, tensors / 4 + 32 * tensors / 4);
  }
}

TEST(LadderTable, OnlyTheFirstTwoRungsNeedWorkspace) {
  bench::add_production_rungs();
  const Shape shape = {.batch = 4, .heads = 32, .query_length = 4096, .key_length = 4096};
  for (const Rung& rung : rungs())
    EXPECT_EQ(rung.workspace_bytes(shape) > 0, rung.name == "naive" || rung.name == "v1")
        << rung.name;
}

// What the names below the line of the story are for: a reader's table goes from rung to rung.
TEST(LadderTable, TheStoryGoesFromNaiveToHopper) {
  bench::add_production_rungs();
  std::vector<std::string_view> story;
  for (const Rung& rung : rungs())
    if (rung.part == Part::story) story.push_back(rung.name);
  const std::vector<std::string_view> expected = {"naive",
                                                  "v1",
                                                  "tile",
                                                  "v2",
                                                  "half_f16",
                                                  "half_bf16",
                                                  "sm80_f16",
                                                  "sm80_bf16",
                                                  "sm90_minimal_f16",
                                                  "sm90_minimal_bf16",
                                                  "sm90_f16",
                                                  "sm90_bf16"};
  EXPECT_EQ(story, expected);
}

TEST(LadderTable, CausalVisitsAboutHalf) {
  Shape shape = {.batch = 1, .heads = 1, .query_length = 4096, .key_length = 4096};
  const std::int64_t all = rung_named("v1").traffic(shape).requested;
  shape.visible = Visible::causal;
  EXPECT_EQ(visible_pairs(shape), 4096LL * 4097 / 2);
  EXPECT_NEAR(double(rung_named("v1").traffic(shape).requested) / double(all), 0.5, 0.02);
}

TEST(LadderShape, CausalIsBottomRight) {
  const Shape shape = {.query_length = 3, .key_length = 5, .visible = Visible::causal};
  EXPECT_EQ(shape.keys_seen(0), 3);
  EXPECT_EQ(shape.keys_seen(2), 5);
  EXPECT_EQ(shape.first_query_seeing(2), 0);
  EXPECT_EQ(shape.first_query_seeing(4), 2);
  const Shape longer = {.query_length = 5, .key_length = 3, .visible = Visible::causal};
  EXPECT_EQ(longer.keys_seen(0), 0);
  EXPECT_EQ(longer.keys_seen(1), 0);
  EXPECT_EQ(longer.keys_seen(2), 1);
  EXPECT_EQ(longer.first_query_seeing(0), 2);
}

void expect_refusal(const Shape& shape, const Memory& memory, const std::string& argument) {
  try {
    run(rung_named("v2"), shape, memory, nullptr);
    ADD_FAILURE() << "not refused: " << argument;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(std::string(error.what()).rfind(argument + " is ", 0), 0u) << error.what();
  }
}

TEST(LadderRun, RefusesBeforeAnyLaunch) {
  alignas(16) static char bytes[64];
  const Memory good = {bytes, bytes, bytes, bytes, nullptr};
  const Shape shape = {.query_length = 1, .key_length = 1};
  Shape other = shape;
  other.head_dim = 96;
  expect_refusal(other, good, "head_dim");
  other = shape;
  other.key_length = -1;
  expect_refusal(other, good, "key_length");
  other = shape;
  other.scale = 0;
  expect_refusal(other, good, "scale");
  Memory memory = good;
  memory.key = nullptr;
  expect_refusal(shape, memory, "key");
  memory = good;
  memory.out = bytes + 4;
  expect_refusal(shape, memory, "out");
  EXPECT_THROW(rung_named("v9"), Error);
}

}  // namespace

}  // namespace tilefold::cuda::ladder
