// Law: the kernel of a CUDA plan is the one of the least predicted time, the prediction is that of
// the committed figures, and the choice follows from the problem and its options alone. Plans for
// the H200: nothing runs. With another card here there is nothing to compare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cuda/backend.hpp"
#include "support/device_description.hpp"
#include "support/only_kernels.hpp"
#include "tilefold/attention.hpp"
#include "tilefold/expression.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Shape {
  int batch, queries, keys, query_heads, kv_heads, dim;
  bool causal = false;
  DType dtype = DType::bf16;
};

Problem problem_of(const Shape& s) {
  Problem problem;
  const Device device = Device::cuda();
  Tensors& t = problem.tensors;
  t.query = TensorView(nullptr, s.dtype, {s.batch, s.queries, s.query_heads, s.dim}, device);
  t.key = TensorView(nullptr, s.dtype, {s.batch, s.keys, s.kv_heads, s.dim}, device);
  t.value = TensorView(nullptr, s.dtype, {s.batch, s.keys, s.kv_heads, s.dim}, device);
  t.out = OutputView(nullptr, s.dtype, {s.batch, s.queries, s.query_heads, s.dim}, device);
  problem.options.backend = Backend::cuda;
  if (s.causal) problem.options.mask = causal();
  return problem;
}

json explained(const Problem& problem) { return json::parse(plan(problem).explain_json()); }

class Choice : public ::testing::Test {
 protected:
  void SetUp() override {
    const cuda::Presence here = cuda::presence();
    if (!here.devices.empty() && here.devices[0].find("H200") == std::string::npos)
      GTEST_SKIP() << "the figures are of an H200: here is " << here.devices[0];
  }
};

/// A staged program runs from the repository's root on another machine.
std::string results_path(const std::string& file) {
  const std::string built_here = TILEFOLD_SOURCE_DIR "/bench/results/" + file;
  return std::filesystem::exists(built_here) ? built_here : "bench/results/" + file;
}

using Row = std::map<std::string, std::string>;

std::vector<Row> rows_of(const std::string& file) {
  std::ifstream stream(results_path(file));
  std::vector<std::string> names;
  std::vector<Row> rows;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> fields;
    std::istringstream columns(line);
    for (std::string field; std::getline(columns, field, ',');) fields.push_back(field);
    if (names.empty()) {
      names = fields;
      continue;
    }
    rows.emplace_back();
    for (std::size_t i = 0; i < fields.size(); ++i) rows.back()[names[i]] = fields[i];
  }
  return rows;
}

/// Predicted over measured.
double ratio(const Shape& shape, const char* family, double milliseconds, int window = 0) {
  const OnlyKernels only(family);
  Problem problem = problem_of(shape);
  if (window > 0) problem.options.mask = causal() && tilefold::window(window);
  const json predicted = explained(problem).at("predicted").at(0);
  EXPECT_THAT(predicted.at("kernel").get<std::string>(), StartsWith(family));
  EXPECT_TRUE(predicted.at("measured").get<bool>());
  return 1e3 * predicted.at("seconds").get<double>() / milliseconds;
}

void expect_close(double ratio, const Row& row) {
  // 32768 causal runs at the power limit, now 5.8 ms and now 6.8.
  EXPECT_GT(ratio, row.count("seqlen_q") != 0 && row.at("seqlen_q") == "32768" ? 0.85 : 1 / 1.1)
      << json(row);
  EXPECT_LT(ratio, 1.1) << json(row);
}

TEST_F(Choice, PredictsSm90WithinATenthOfTheCommittedFigures) {
  int points = 0;
  for (const Row& row : rows_of("2026-12-01-h200-forward.csv")) {
    if (row.at("peer") != "tilefold" || row.at("op") != "forward") continue;
    const auto number = [&](const char* name) { return std::stoi(row.at(name)); };
    const Shape shape{number("batch"),      number("seqlen_q"), number("seqlen_k"),
                      number("heads_q"),    number("heads_kv"), number("hdim"),
                      number("causal") != 0};
    expect_close(ratio(shape, "sm90", std::stod(row.at("ms")), number("window")), row);
    ++points;
  }
  EXPECT_EQ(points, 44);
}

TEST_F(Choice, PredictsSm80WithinATenthOfTheCommittedFigures) {
  int points = 0;
  for (const Row& row : rows_of("2026-11-30-h200-sm80-share.csv")) {
    if (row.at("kernel").back() != '*') continue;  // not the registry's
    const auto number = [&](const char* name) { return std::stoi(row.at(name)); };
    const Shape shape{number("batch"), number("length"),   number("length"),     number("heads"),
                      number("heads"), number("head_dim"), number("causal") != 0};
    expect_close(ratio(shape, "sm80", std::stod(row.at("ms"))), row);
    ++points;
  }
  EXPECT_EQ(points, 36);
}

TEST_F(Choice, IsTheLeastPredictedTime) {
  for (const Shape& shape :
       {Shape{1, 1, 128, 8, 8, 128}, Shape{1, 1, 131072, 64, 8, 128}, Shape{16, 64, 1024, 8, 8, 64},
        Shape{256, 4, 1024, 32, 8, 256}, Shape{4, 4096, 4096, 16, 16, 128, true}}) {
    const json e = explained(problem_of(shape));
    double least = 1e9;
    std::string kernel;
    for (const json& p : e.at("predicted"))
      if (p.at("seconds").get<double>() < least) {
        least = p.at("seconds").get<double>();
        kernel = p.at("kernel").get<std::string>();
      }
    EXPECT_EQ(e.at("kernel"), kernel);
    EXPECT_EQ(e.at("predicted").size(), 3u);
  }
}

// What was measured faster stays: sm90 before sm80 before any, whatever the length of a prefill.
TEST_F(Choice, OfPrefillIsSm90WhereItCan) {
  for (int dim : {40, 64, 96, 128, 192, 256})
    for (int length : {65, 128, 129, 512, 4096, 131072})
      for (int batch : {1, 5, 64})
        for (bool causal : {false, true}) {
          const Shape shape{batch, length, length, 16, 4, dim, causal};
          // Short rows of grouped heads are packed, which costs sm90 more than sm80: measured.
          EXPECT_THAT(plan(problem_of(shape)).kernel(),
                      StartsWith(length < 512 ? "sm" : "sm90 bf16 d"))
              << dim << " " << length << " " << batch;
        }
}

TEST_F(Choice, OfProblemsThatSm90RefusesIsSm80ThenAny) {
  Problem unaligned = problem_of({2, 512, 512, 4, 4, 132});
  EXPECT_THAT(plan(unaligned).kernel(), StartsWith("any "));
  EXPECT_THAT(plan(problem_of({2, 512, 512, 4, 4, 64, false, DType::f32})).kernel(),
              StartsWith("any "));
  for (int length : {1, 16, 700}) {
    Problem broadcast = problem_of({2, length, length, 4, 4, 64});  // TMA repeats no rows
    TensorView& key = broadcast.tensors.key;
    key = TensorView(nullptr, DType::bf16, key.shape(), Extents{0, 256, 64, 1}, Device::cuda());
    EXPECT_THAT(plan(broadcast).kernel(), StartsWith("sm80 bf16 d64")) << length;
  }
}

// In batch-invariant mode the lengths, the batch and the heads may not matter.
TEST_F(Choice, OfBatchInvariantPlansDependsOnDtypesDimensionsAndFormulaAlone) {
  for (int dim : {64, 128, 256}) {
    std::string kernel;
    for (int batch : {1, 3, 256})
      for (int queries : {1, 5, 64, 2000})
        for (int keys : {1, 300, 70000})
          for (int kv_heads : {1, 8}) {
            Problem problem = problem_of({batch, queries, keys, 8, kv_heads, dim});
            problem.options.reproducibility = Reproducibility::batch_invariant;
            const Plan made = plan(problem);
            if (kernel.empty()) kernel = made.kernel();
            EXPECT_EQ(made.kernel(), kernel);
          }
    EXPECT_THAT(kernel, StartsWith("sm90"));
  }
  Problem problem = problem_of({1, 5, 300, 8, 8, 64});
  problem.options.reproducibility = Reproducibility::batch_invariant;
  EXPECT_THAT(plan(problem).explain(), HasSubstr("batch-invariant: the first that can"));
}

TEST_F(Choice, IsRestrictedByTheVariable) {
  const OnlyKernels only("sm80");
  const json e = explained(problem_of({1, 512, 512, 8, 8, 128}));
  EXPECT_THAT(e.at("kernel").get<std::string>(), StartsWith("sm80"));
  EXPECT_EQ(e.at("predicted").size(), 1u);
  EXPECT_EQ(e.at("because"), "the only family that can");
}

TEST_F(Choice, IsExplained) {
  const std::string text = plan(problem_of({4, 4096, 4096, 16, 16, 128})).explain();
  for (const char* part :
       {"model      sm90 bf16 d128 128x128: 758 us (measured rates): 2048 items in 16 waves, 32.0 "
        "key tiles an item; multiprocessors 755 us, device memory ",
        "model      sm80 bf16 d128 128x64: 1.5", "model      any 16 rows: ", "(estimated rates)",
        "chosen     sm90 bf16 d128 128x128: the least predicted time; sm80 bf16 d128 128x64 takes "
        "1.9",
        " predicted: sm90 bf16 d128 128x128 takes 758 us"})
    EXPECT_THAT(text, HasSubstr(part));
  const std::string decode = plan(problem_of({1, 1, 65536, 8, 8, 128})).explain();
  EXPECT_THAT(decode, HasSubstr(", merge "));
  EXPECT_THAT(text, Not(HasSubstr(", merge ")));
  EXPECT_THAT(text, Not(HasSubstr("hides among them")));
}

// The model does not ask formulas: a window written as one visits all tiles there.
TEST_F(Choice, SaysWhereHiddenTilesAreCounted) {
  Problem problem = problem_of({1, 4096, 4096, 8, 8, 128});
  problem.options.mask = parse_mask("k <= q and q - k < 1024");
  const std::string text = plan(problem).explain();
  EXPECT_THAT(text, HasSubstr("model      any 16 rows interpreted: at most "));
  EXPECT_THAT(text, HasSubstr(" key tiles an item, what the mask hides among them; "));
  EXPECT_TRUE(explained(problem).at("predicted")[0].at("counts_hidden_tiles"));
}

TEST_F(Choice, OfLengthsOnTheDeviceIsThatOfTheirCapacities) {
  Problem host = problem_of({2, 300, 500, 8, 8, 128});
  const std::int32_t lengths[] = {500, 500};
  host.tensors.key_lengths = TensorView(lengths, DType::i32, {2});
  Problem there = with_lengths_on_device(host);
  state_capacities(there);
  const json on_host = explained(host), on_device = explained(there);
  EXPECT_EQ(on_host.at("kernel"), on_device.at("kernel"));
  EXPECT_EQ(on_host.at("predicted"), on_device.at("predicted"));
  EXPECT_THAT(plan(there).explain(), HasSubstr(": at most "));
}

// A mask program hides what the model does not count: the time is one that cannot be passed.
TEST_F(Choice, MaskProgramsCostMoreThanTheirRange) {
  Problem range = problem_of({2, 4096, 4096, 8, 8, 128, true});
  Problem program = range;
  program.options.mask = causal() || prefix(64);
  const auto seconds = [](const Problem& p) {
    return explained(p).at("predicted").at(0).at("seconds").get<double>();
  };
  EXPECT_GT(seconds(program), seconds(range));
  EXPECT_THAT(plan(program).explain(), HasSubstr("(estimated rates)"));
}

TEST_F(Choice, TakesMicroseconds) {
  const Problem problem = problem_of({32, 4096, 4096, 16, 16, 128, true});
  std::vector<double> times;
  for (int i = 0; i < 101; ++i) {
    const auto start = std::chrono::steady_clock::now();
    plan(problem);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    times.push_back(time.count());
  }
  std::nth_element(times.begin(), times.begin() + 50, times.end());
  RecordProperty("median_us", std::to_string(times[50]));
#ifdef NDEBUG
  EXPECT_LT(times[50], 50);
#endif
}

}  // namespace
}  // namespace tilefold::testing
