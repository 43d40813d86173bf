// Laws of runs on a device: right by the accuracy rule, bitwise repeatable, capturable, and refused
// before anything is written where they must be. Skipped, saying so, where there is no device.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cuda/backend.hpp"
#include "cuda/runtime/buffer.hpp"
#include "support/device_run.hpp"
#include "support/only_kernels.hpp"
#include "support/verify.hpp"
#include "tilefold/attention.hpp"
#include "tilefold/error.hpp"

namespace tilefold::testing {
namespace {

using cuda::DeviceBuffer;

class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const cuda::Presence here = cuda::presence();
    if (!here.absence.empty()) GTEST_SKIP() << here.absence;
  }
};
using CudaRandomProblems = OnDevice;
using CudaRuns = OnDevice;

// Found by a soak. 1000883: values next to the last visible key, which no row sees by range and
// program together though some see it by each; 1003361: a NaN key that only one lane of a quad has,
// beside a row without keys.
TEST_F(CudaRandomProblems, OnceFoundWrongStayRight) {
  for (const std::uint64_t seed : {1000883, 1003361})
    for (const char* family : {"sm90", "sm80"}) {
      const OnlyKernels only(family);
      GeneratorLimits limits;
      limits.family = KernelFamily::sm90;
      RandomProblem drawn = make_random_problem(seed, limits);
      const ProblemVerdict verdict = check_problem(drawn, Backend::cuda);
      EXPECT_EQ(verdict.fault, "") << family << "\n" << drawn.describe();
    }
}

// Found by a soak: heads whose rows with more than one key are few, though their rows are many;
// 2009418: under a causal mask from 1 key on; 2035210: with scores that no query changes.
TEST_F(CudaRandomProblems, RowsOfFewKeysKeepTheRule) {
  struct Found {
    std::uint64_t seed;
    const char* family;
    double work;
  };
  for (const Found& found :
       {Found{2009418, "sm80", 2.4e7}, Found{2013642, "sm90", 3e6}, Found{2015746, "sm80", 3e6},
        Found{2017927, "sm80", 3e6}, Found{2019688, "sm80", 2.4e7}, Found{2024390, "sm80", 3e6},
        Found{2026025, "sm80", 3e6}, Found{2029709, "sm80", 2.4e7}, Found{2035210, "sm80", 3e6},
        Found{2038140, "sm90", 2.4e7}}) {
    const OnlyKernels only(found.family);
    GeneratorLimits limits;
    limits.work = found.work;
    limits.family =
        found.family == std::string_view("sm90") ? KernelFamily::sm90 : KernelFamily::sm80;
    RandomProblem drawn = make_random_problem(found.seed, limits);
    const ProblemVerdict verdict = check_problem(drawn, Backend::cuda);
    EXPECT_EQ(verdict.fault + verdict.refusal, "") << found.family << "\n" << drawn.describe();
  }
}

TEST_F(CudaRandomProblems, AreRightOrRefusedWithAReason) {
  int right = 0;
  GeneratorLimits limits;
  limits.work = 1e6;
  for (std::uint64_t seed = 70000; seed < 70300; ++seed) {
    RandomProblem drawn = make_random_problem(seed, limits);
    const ProblemVerdict verdict = check_problem(drawn, Backend::cuda);
    EXPECT_EQ(verdict.fault, "") << drawn.describe();
    right += verdict.fault.empty() && verdict.refusal.empty();
  }
  EXPECT_GT(right, 100) << "most problems were refused";
}

/// Every third query's bias becomes `low`, for all its keys.
void lower_rows(const TensorView& bias, float low) {
  for (std::int64_t b = 0; b < bias.dim(0); ++b)
    for (std::int64_t h = 0; h < bias.dim(1); ++h)
      for (std::int64_t q = 0; q < bias.dim(2); q += 3)
        for (std::int64_t k = 0; k < bias.dim(3); ++k) {
          const std::int64_t at =
              b * bias.stride(0) + h * bias.stride(1) + q * bias.stride(2) + k * bias.stride(3);
          char* element =
              static_cast<char*>(const_cast<void*>(bias.data())) + at * bytes_of(bias.dtype());
          const bfloat16 half = round_to<bfloat16>(low);
          if (bias.dtype() == DType::f32)
            std::memcpy(element, &low, sizeof low);
          else
            std::memcpy(element, &half, sizeof half);
        }
}

// Frameworks write their smallest number where they mean to hide: a row of nothing else is a row as
// any other.
TEST_F(CudaRandomProblems, RowsOfVeryLowScoresAreOrdinary) {
  int tried = 0;
  for (const char* family : {"sm90", "sm80"})
    for (const int head_dim : {64, 128, 256})
      for (const float low : {-1e30f, -3.3895e38f, std::numeric_limits<float>::lowest()}) {
        const OnlyKernels only(family);
        GeneratorLimits limits;
        limits.demand = Demand{.features = {Feature::bias, Feature::lse},
                               .query_dtype = DType::bf16,
                               .head_dim = head_dim};
        RandomProblem drawn = make_random_problem(std::uint64_t(9000 + head_dim), limits);
        const TensorView& bias = drawn.problem.tensors.bias;
        // bfloat16 has no number between its lowest and float32's, float16 none as low.
        if (bias.dtype() == DType::f16) continue;
        if (bias.dtype() == DType::bf16 && low < -3.3895e38f) continue;
        ++tried;
        lower_rows(bias, low);
        const ProblemVerdict verdict = check_problem(drawn, Backend::cuda);
        EXPECT_EQ(verdict.fault + verdict.refusal, "") << family << " " << low << "\n"
                                                       << drawn.describe();
      }
  EXPECT_GE(tried, 8);
}

// Rounded weights break the rule here in 1 of 1000 problems with a 16-bit output and in 1 of 40
// with a float32 one (docs/numerics.md).
TEST_F(CudaRandomProblems, HeadsOfFewOutputsKeepTheRule) {
  int on_tensor_cores = 0;
  for (const Feature output : {Feature::lse, Feature::partial})
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      GeneratorLimits limits;
      limits.demand = Demand{.features = {Feature::few_rows, Feature::grouped_heads, output}};
      RandomProblem drawn = make_random_problem(90000 + seed, limits);
      const ProblemVerdict verdict = check_problem(drawn, Backend::cuda);
      EXPECT_EQ(verdict.fault + verdict.refusal, "") << drawn.describe();
      Problem problem = drawn.problem;
      problem.options.backend = Backend::cuda;
      on_tensor_cores += std::string(plan_where_it_runs(problem).kernel()).rfind("sm", 0) == 0;
    }
  EXPECT_GT(on_tensor_cores, 700);
}

/// Paged decode, f32, lengths on the device: 2 sequences, 4 heads over 2, pages of 4 keys.
struct PagedDecode {
  static constexpr int batch = 2, heads = 4, kv_heads = 2, dim = 8, page = 4, pages = 6, width = 3;
  std::vector<float> query = std::vector<float>(batch * heads * dim),
                     pool = std::vector<float>(pages * page * kv_heads * dim);
  std::vector<std::int32_t> table = {0, 1, 2, 3, 4, 5}, lengths = {9, 12};
  DeviceBuffer q, k, v, out, lse, ids, keys;

  PagedDecode() {
    for (std::size_t i = 0; i < query.size(); ++i) query[i] = std::sin(float(i));
    for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = std::cos(float(i) * 0.7f);
    q = DeviceBuffer::copy_of(query);
    k = DeviceBuffer::copy_of(pool);
    v = DeviceBuffer::copy_of(pool);
    out = DeviceBuffer(query.size() * 4);
    lse = DeviceBuffer(batch * heads * 4);
    ids = DeviceBuffer::copy_of(table);
    keys = DeviceBuffer::copy_of(lengths);
  }
  Problem problem() const {
    const Device device = Device::cuda(0);
    Problem p;
    Tensors& t = p.tensors;
    t.query = TensorView(q.data(), DType::f32, {batch, 1, heads, dim}, device);
    t.key = TensorView(k.data(), DType::f32, {pages, page, kv_heads, dim}, device);
    t.value = TensorView(v.data(), DType::f32, {pages, page, kv_heads, dim}, device);
    t.out = OutputView(out.data(), DType::f32, {batch, 1, heads, dim}, device);
    t.lse = OutputView(lse.data(), DType::f32, {batch, heads, 1}, device);
    t.pages.table = TensorView(ids.data(), DType::i32, {batch, width}, device);
    t.key_lengths = TensorView(keys.data(), DType::i32, {batch}, device);
    p.options.capacity.query_length = 1;
    p.options.capacity.key_length = width * page;
    return p;
  }
  std::vector<float> result() const {
    cuda::require_success(cudaDeviceSynchronize(), "the run");
    std::vector<float> values(query.size());
    cuda::require_success(
        cudaMemcpy(values.data(), out.data(), values.size() * 4, cudaMemcpyDeviceToHost), "copy");
    return values;
  }
  void set(const DeviceBuffer& buffer, const std::vector<std::int32_t>& values) const {
    cuda::require_success(
        cudaMemcpy(buffer.data(), values.data(), values.size() * 4, cudaMemcpyHostToDevice),
        "copy");
  }
};

TEST_F(CudaRuns, AHundredRunsGiveTheSameBits) {
  const PagedDecode decode;
  const Problem problem = decode.problem();
  const Plan plan = tilefold::plan(problem);
  plan.run(problem.tensors);
  const std::vector<float> first = decode.result();
  for (int i = 0; i < 100; ++i) {
    plan.run(problem.tensors);
    ASSERT_EQ(std::memcmp(first.data(), decode.result().data(), first.size() * 4), 0)
        << "run " << i;
  }
}

TEST_F(CudaRuns, ACapturedRunReadsNewLengthsAndPagesAtEachReplay) {
  const PagedDecode decode;
  const Problem problem = decode.problem();
  Plan plan = tilefold::plan(problem);
  plan.prepare();
  cudaStream_t stream = nullptr;
  cuda::require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  cuda::require_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                        "capture");
  RunOptions options;
  options.stream = stream;
  plan.run(problem.tensors, options);
  cudaGraph_t graph = nullptr;
  cuda::require_success(cudaStreamEndCapture(stream, &graph), "end of capture");
  cudaGraphExec_t replay = nullptr;
  cuda::require_success(cudaGraphInstantiate(&replay, graph, 0), "instantiation");
  for (const std::vector<std::int32_t>& lengths :
       {std::vector<std::int32_t>{9, 12}, {1, 0}, {12, 5}}) {
    decode.set(decode.keys, lengths);
    cuda::require_success(cudaGraphLaunch(replay, stream), "replay");
    const std::vector<float> replayed = decode.result();
    plan.run(problem.tensors);
    EXPECT_EQ(replayed, decode.result());
    EXPECT_EQ(plan.status(), 0u);
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_F(CudaRuns, CapturingAnUnpreparedPlanIsRefused) {
  const PagedDecode decode;
  const Problem problem = decode.problem();
  const Plan plan = tilefold::plan(problem);
  cudaStream_t stream = nullptr;
  cuda::require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  cuda::require_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                        "capture");
  RunOptions options;
  options.stream = stream;
  try {
    plan.run(problem.tensors, options);
    ADD_FAILURE() << "an unprepared plan was captured";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_prepared) << error.what();
  }
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_F(CudaRuns, APageIdOutsideThePoolGivesNanRowsOfItsSequenceOnlyAndAStatus) {
  const PagedDecode decode;
  const Problem problem = decode.problem();
  const Plan plan = tilefold::plan(problem);
  plan.run(problem.tensors);
  const std::vector<float> right = decode.result();
  decode.set(decode.ids, {0, 1, 2, 3, 600, 5});
  plan.run(problem.tensors);
  const std::vector<float> wrong = decode.result();
  EXPECT_EQ(plan.status(), 2u);
  const std::size_t half = right.size() / 2;
  for (std::size_t i = 0; i < half; ++i) EXPECT_EQ(wrong[i], right[i]) << "element " << i;
  for (std::size_t i = half; i < right.size(); ++i) EXPECT_TRUE(std::isnan(wrong[i])) << i;
  decode.set(decode.ids, {0, 1, 2, 3, 4, 5});
  plan.run(problem.tensors);
  EXPECT_EQ(decode.result(), right);
  EXPECT_EQ(plan.status(), 0u);
}

TEST_F(CudaRuns, ALengthPastItsCapacityGivesNanRowsAndAStatus) {
  const PagedDecode decode;
  const Problem problem = decode.problem();
  const Plan plan = tilefold::plan(problem);
  decode.set(decode.keys, {9, 1000});
  plan.run(problem.tensors);
  const std::vector<float> got = decode.result();
  EXPECT_EQ(plan.status(), 1u);
  EXPECT_FALSE(std::isnan(got.front()));
  EXPECT_TRUE(std::isnan(got.back()));
}

TEST_F(CudaRuns, AHostPointerSaidToBeOnTheDeviceIsRefused) {
  const PagedDecode decode;
  Problem problem = decode.problem();
  const Plan plan = tilefold::plan(problem);
  problem.tensors.query = problem.tensors.query.with_data(decode.query.data());
  try {
    plan.run(problem.tensors);
    ADD_FAILURE() << "a host pointer was taken for a device pointer";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_mismatch) << error.what();
    EXPECT_NE(std::string(error.what()).find("query"), std::string::npos) << error.what();
  }
}

TEST_F(CudaRuns, APointerOffSixteenBytesIsRefusedAndNothingIsWritten) {
  const Device device = Device::cuda(0);
  const Extents shape{1, 64, 2, 64};
  constexpr std::size_t bytes = 64 * 2 * 64 * 2;
  const DeviceBuffer input(bytes + 2), out(bytes);
  cuda::require_success(cudaMemset(input.data(), 0, input.bytes()), "cudaMemset");
  cuda::require_success(cudaMemset(out.data(), poison, bytes), "cudaMemset");
  Problem problem;
  Tensors& t = problem.tensors;
  t.query = t.key = t.value = TensorView(input.data(), DType::bf16, shape, device);
  t.out = OutputView(out.data(), DType::bf16, shape, device);
  const Plan plan = tilefold::plan(problem);
  ASSERT_EQ(std::string(plan.kernel()).rfind("sm", 0), 0u) << plan.kernel();
  t.value = t.value.with_data(input.as<char>() + 2);
  try {
    plan.run(t);
    ADD_FAILURE() << "a value off 16 bytes was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::misaligned) << error.what();
  }
  std::vector<unsigned char> written(bytes);
  cuda::require_success(cudaDeviceSynchronize(), "the run");
  cuda::require_success(cudaMemcpy(written.data(), out.data(), bytes, cudaMemcpyDeviceToHost),
                        "copy");
  for (const unsigned char byte : written) ASSERT_EQ(byte, poison);
}

TEST_F(CudaRuns, ACustomMaskIsRefusedNamingRunTimeCompilation) {
  const PagedDecode decode;
  Problem problem = decode.problem();
  problem.options.mask = mask([](auto q, auto k, auto) { return k <= q; });
  try {
    tilefold::plan(problem);
    ADD_FAILURE() << "code was planned as data";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("run time"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tilefold::testing
