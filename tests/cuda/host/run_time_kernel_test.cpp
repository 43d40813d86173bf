// Laws of kernels compiled at run time that need no device: one library for all plans of a kernel,
// gone with the last; and a launch whose parameter holds the formula's arguments, side tensors on
// the device, where the kernel reads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "cuda/formula_compiler.hpp"
#include "cuda/host/fake_runtime.hpp"
#include "cuda/host/old_values.hpp"
#include "cuda/jit/forward_layout.hpp"
#include "cuda/kernels/forward_params.cuh"
#include "cuda/kernels/side_tensor.hpp"
#include "cuda/kernels/sm90/forward/params.hpp"
#include "cuda/launch/device_functions.hpp"
#include "score/program/side_tensor_state.hpp"
#include "support/only_kernels.hpp"
#include "support/text_formula.hpp"
#include "tilefold/error.hpp"
#include "tilefold/expression.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::testing {
namespace {

using score::as_text::Dilated;
using score::as_text::Dilated_text;
using score::as_text::SameDocument;
using score::as_text::SameDocument_text;
using ::testing::HasSubstr;

constexpr std::int64_t batch = 2, length = 512, heads = 4, dim = 64;
constexpr cuda::jit::ForwardShape sm90_64{cuda::jit::Family::sm90, cuda::HalfType::bf16, 0},
    sm80_64{cuda::jit::Family::sm80, cuda::HalfType::bf16, 1};

Problem dense(const Mask& mask) {
  Problem problem;
  Tensors& t = problem.tensors;
  const Extents shape{batch, length, heads, dim};
  const Device device = Device::cuda(0);
  t.query = TensorView(device_memory(0, 0), DType::bf16, shape, device);
  t.key = TensorView(device_memory(0, 1), DType::bf16, shape, device);
  t.value = TensorView(device_memory(0, 2), DType::bf16, shape, device);
  t.out = OutputView(device_memory(0, 3), DType::bf16, shape, device);
  problem.options.mask = mask;
  return problem;
}
Mask dilated(int step) { return text_mask(Dilated{step}, Dilated_text); }

std::array<unsigned char, 4096> parameter;  // of the first launch of a run, the forward
const void* launched_function = nullptr;

class RunTimeKernel : public ::testing::Test {
 protected:
  void SetUp() override {
    const cuda::FormulaCompiler compiler = cuda::formula_compiler();
    if (!compiler.absence.empty()) GTEST_SKIP() << compiler.absence;
    ::setenv("TILEFOLD_CACHE_MB", "0", 0);  // before the process's cache is first used
    fake_runtime() = {};
  }
  void TearDown() override { fake_runtime() = {}; }
  static FakeCalls calls() { return fake_runtime().calls; }

  /// Runs with the parameter kept: the library hands over the bytes of the largest there may be.
  static void run(const Plan& plan, const Problem& problem) {
    launched_function = nullptr;
    fake_runtime().on_launch = [](const void* function, void** parameters) {
      if (launched_function != nullptr) return;  // a merge of split rows
      launched_function = function;
      std::memcpy(parameter.data(), parameters[0], parameter.size());
    };
    plan.run(problem.tensors);
    fake_runtime().on_launch = nullptr;
  }
};

TEST_F(RunTimeKernel, IsLoadedOnceForAllPlansAndUnloadedWithTheLast) {
  const Problem three = dense(dilated(3)), four = dense(dilated(4));
  std::optional<Plan> first = plan(three), second = plan(four);
  EXPECT_EQ(calls().libraries_loaded, 0) << "plan() needs no driver";
  first->prepare();
  second->prepare();
  EXPECT_EQ(calls().libraries_loaded, 1);
  EXPECT_THAT(fake_runtime().kernel_name, HasSubstr("forward_kernel"));
  run(*first, three);
  const void* const function = launched_function;
  first.reset();
  EXPECT_EQ(calls().libraries_unloaded, 0);
  run(*second, four);
  EXPECT_EQ(launched_function, function);
  second.reset();
  EXPECT_EQ(calls().libraries_unloaded, 1);
  EXPECT_GE(calls().launches, 2);
}

TEST_F(RunTimeKernel, IsLaunchedWithItsArguments) {
  const auto layout = cuda::jit::forward_layout(sm90_64, alignof(Dilated));
  for (const int step : {3, 5}) {
    const Problem problem = dense(dilated(step));
    const Plan made = plan(problem);
    ASSERT_STREQ(made.kernel(), "sm90 bf16 d64 192x128 nvrtc");
    run(made, problem);
    Dilated functor{};
    std::memcpy(&functor, parameter.data() + layout.formula_at, sizeof functor);
    EXPECT_EQ(functor.step, step);
    const int* first_keys = nullptr;
    std::memcpy(&first_keys, parameter.data() + layout.first_keys_at, sizeof first_keys);
    ASSERT_NE(first_keys, nullptr);
    EXPECT_EQ(first_keys[0], 0);
  }
}

cuda::sm90::OutputPath output_path_of_run() {
  cuda::sm90::KernelParams params;
  std::memcpy(static_cast<void*>(&params), parameter.data(), sizeof params);
  return params.output_path;
}

TEST_F(RunTimeKernel, IsPlainWhereTheProblemAsksForNoMore) {
  const auto compiled_for = [](const Problem& problem) {
    const std::string text = plan(problem).explain();
    EXPECT_THAT(text, HasSubstr("sm90 "));
    return text.find("sm90 plain forward") != std::string::npos ? "plain" : "full";
  };
  const Problem simple = dense(dilated(3));
  EXPECT_STREQ(compiled_for(simple), "plain");

  Problem other = simple;
  other.options.reproducibility = Reproducibility::batch_invariant;
  EXPECT_STREQ(compiled_for(other), "full") << "weights in two parts";
  other = simple;
  other.tensors.sinks = TensorView(device_memory(0, 4), DType::f32, {heads}, Device::cuda(0));
  EXPECT_STREQ(compiled_for(other), "full") << "sinks";
  other = simple;
  other.tensors.out =
      OutputView(device_memory(0, 3), DType::f32, {batch, length, heads, dim}, Device::cuda(0));
  EXPECT_STREQ(compiled_for(other), "full") << "an output of another type";
  other = simple;
  other.tensors.query = other.tensors.query.slice(1, 0, 64);
  other.tensors.out =
      OutputView(device_memory(0, 3), DType::bf16, {batch, 64, heads, dim}, Device::cuda(0));
  EXPECT_STREQ(compiled_for(other), "full") << "64 rows of 64 are fewer than 8192 outputs";
}

TEST_F(RunTimeKernel, PlainStoresWhereverTheOutputStarts) {
  Problem problem = dense(dilated(3));
  const Plan made = plan(problem);
  run(made, problem);
  EXPECT_EQ(output_path_of_run(), cuda::sm90::OutputPath::box);
  problem.tensors.out = OutputView(static_cast<char*>(device_memory(0, 3)) + 2, DType::bf16,
                                   {batch, length, heads, dim}, Device::cuda(0));
  run(made, problem);
  EXPECT_EQ(output_path_of_run(), cuda::sm90::OutputPath::unaligned);
}

TEST_F(RunTimeKernel, OfSm80IsLaunchedWithItsArgumentsBehindTheOthers) {
  const OnlyKernels only("sm80");
  const Problem problem = dense(dilated(6));
  const Plan made = plan(problem);
  ASSERT_STREQ(made.kernel(), "sm80 bf16 d64 128x64 nvrtc");
  run(made, problem);
  Dilated functor{};
  std::memcpy(&functor,
              parameter.data() + cuda::jit::forward_layout(sm80_64, alignof(Dilated)).formula_at,
              sizeof functor);
  EXPECT_EQ(functor.step, 6);
  cuda::ForwardParams params;
  std::memcpy(static_cast<void*>(&params), parameter.data(), sizeof params);
  EXPECT_EQ(params.query.data, problem.tensors.query.data());
  EXPECT_EQ(params.out, problem.tensors.out.data());
}

// A page that the formula hides may have no entry there: -1 would break the sequence.
TEST_F(RunTimeKernel, AsksTheMaskAboutPagesOfATableOnTheDevice) {
  const OnlyKernels only("sm80");
  const auto reader_of = [](const Mask& mask) {
    Problem problem = dense(mask);
    Tensors& t = problem.tensors;
    const Device device = Device::cuda(0);
    t.key = TensorView(device_memory(0, 1), DType::bf16, {64, 16, heads, dim}, device);
    t.value = TensorView(device_memory(0, 2), DType::bf16, {64, 16, heads, dim}, device);
    t.pages.table = TensorView(device_memory(0, 4), DType::i32, {batch, 32}, device);
    t.key_lengths = TensorView(device_memory(0, 5), DType::i32, {batch}, device);
    problem.options.capacity.query_length = problem.options.capacity.key_length = length;
    const Plan made = plan(problem);
    EXPECT_STREQ(made.kernel(), "sm80 bf16 d64 128x64 nvrtc");
    launched_function = nullptr;
    fake_runtime().on_launch = [](const void* function, void**) {
      if (launched_function == nullptr) launched_function = function;  // the forward comes later
    };
    made.run(problem.tensors);
    fake_runtime().on_launch = nullptr;
    return launched_function;
  };
  const Mask odd = parse_mask("k % 7 != 3");
  EXPECT_EQ(reader_of(odd), cuda::any_read_lengths_function());
  EXPECT_EQ(reader_of(causal() && !odd), cuda::any_read_lengths_function());
  EXPECT_EQ(reader_of(dilated(3)), cuda::read_lengths_function()) << "code is no list";
}

TEST_F(RunTimeKernel, ReadsCopiesOfSideTensors) {
  std::vector<std::int32_t> ids(length);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = std::int32_t(i / 100);
  const LookupTable table(TensorView(ids.data(), DType::i32, {length}));
  const Problem problem =
      dense(causal() && text_mask(SameDocument{table.lookup()}, SameDocument_text));
  run(plan(problem), problem);
  using Joined = score::And<score::Causal, SameDocument>;
  const auto layout = cuda::jit::forward_layout(sm90_64, alignof(Joined));
  const score::Lookup* copy = nullptr;
  Joined functor{};
  std::memcpy(static_cast<void*>(&functor), parameter.data() + layout.formula_at, sizeof functor);
  copy = &functor.b.ids;
  EXPECT_EQ(copy->positions, length);
  EXPECT_NE(copy->values, table.lookup().values) << "of the host";
  EXPECT_NE(copy->low, table.lookup().low);
}

// ---- formulas built at run time

/// `tensors` side arrays, then scalars: the functor of a mask that is a program.
struct ProgramArguments {
  score::SideArray<int> array;
  int scalar;
};
ProgramArguments arguments_of_last_launch() {
  const auto layout = cuda::jit::forward_layout(sm90_64, 8);
  ProgramArguments arguments{};
  std::memcpy(static_cast<void*>(&arguments), parameter.data() + layout.formula_at,
              sizeof arguments);
  return arguments;
}

TEST_F(RunTimeKernel, TakesNewValuesWithoutACompilation) {
  using namespace symbols;
  std::vector<std::int32_t> ids(length, 1);
  SideTensor doc("doc", TensorView(ids.data(), DType::i32, {length}));
  Scalar reach("reach", 7);
  const Problem problem = dense(mask(doc[q + off] == doc[k] && q + off - k <= reach));
  Plan made = plan(problem);
  run(made, problem);
  EXPECT_EQ(arguments_of_last_launch().scalar, 7);
  EXPECT_EQ(arguments_of_last_launch().array.values[5], 1);

  const FakeCalls before = calls();
  const cuda::FormulaCounts compiled = cuda::formula_counts();
  run(made, problem);
  EXPECT_EQ(calls().copies, before.copies) << "nothing is new";
  reach.set(9);
  ids.assign(length, 4);
  doc.update(TensorView(ids.data(), DType::i32, {length}));
  run(made, problem);
  EXPECT_EQ(arguments_of_last_launch().scalar, 9);
  EXPECT_EQ(arguments_of_last_launch().array.values[5], 4);
  EXPECT_EQ(arguments_of_last_launch().array.low[0], 4);
  EXPECT_GT(calls().copies, before.copies);
  EXPECT_EQ(calls().allocations, before.allocations) << "the same sizes need no memory";
  EXPECT_EQ(cuda::formula_counts().compiled, compiled.compiled);
}

TEST_F(RunTimeKernel, IsNotCapturedWithOldValues) {
  using namespace symbols;
  Scalar reach("reach", 7);
  const Problem problem = dense(mask(q + off - k <= reach));
  expect_no_capture_of_old_values(problem, reach);
}

/// Launches of the kernels that make padded rows and cells, done on the host.
int gathers;
void gather_on_host(const void* function, void** parameters) {
  if (function == cuda::pad_rows_function()) {
    const auto& rows = *static_cast<const cuda::PaddedRows*>(parameters[0]);
    for (long long i = 0; i < rows.elements; ++i) rows.to[i] = rows.from[source_of(rows, i)];
    ++gathers;
  } else if (function == cuda::build_integer_cells_function()) {
    const auto& array = *static_cast<const score::SideArray<int>*>(parameters[0]);
    const int level = *static_cast<const int*>(parameters[1]);
    for (long long cell = 0; cell < array.cells_of(level); ++cell) {
      const score::LowHigh<int> bounds = bounds_below(array, level, cell);
      const_cast<int*>(array.low)[array.begin[level - 1] + cell] = bounds.low;
      const_cast<int*>(array.high)[array.begin[level - 1] + cell] = bounds.high;
    }
  } else {
    std::memcpy(parameter.data(), parameters[0], parameter.size());
  }
}

TEST_F(RunTimeKernel, BuildsCellsOfTensorsThatLieOnTheDevice) {
  using symbols::k, symbols::off, symbols::q;
  // The fake device's memory is the host's: what would be there lies here.
  std::vector<std::int32_t> ids(batch * length);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = std::int32_t(i / 37 * 3 % 101);
  const TensorView here(ids.data(), DType::i32, {batch, length});
  SideTensor doc("doc", TensorView(ids.data(), DType::i32, {batch, length}, Device::cuda(0)));
  const Problem problem = dense(mask(doc(symbols::batch, q + off) == doc(symbols::batch, k)));
  Plan made = plan(problem);
  gathers = 0;
  fake_runtime().on_launch = gather_on_host;
  made.run(problem.tensors);
  made.run(problem.tensors);
  EXPECT_EQ(gathers, 1) << "the same revision is built once";
  const auto expect_same = [&] {
    const score::SideArray<int> read = arguments_of_last_launch().array;
    SideTensor host("doc", here);
    const auto cells = host.state()->integer_cells(read.blocked);
    for (int b = 0; b < int(batch); ++b)
      for (int i = -3; i < int(length) + 3; i += 5) {
        ASSERT_EQ(read.at(b, score::Position(i - 3, 3)), cells->array.at(b, i));
        for (const int wide : {1, 8, 63, 127, 300}) {
          const score::Interval got = read.at(score::Interval(b), score::Interval(i, i + wide));
          const score::Interval want =
              cells->array.at(score::Interval(b), score::Interval(i, i + wide));
          ASSERT_TRUE(got.low == want.low && got.high == want.high) << b << " " << i << " " << wide;
        }
      }
  };
  expect_same();
  for (std::int32_t& id : ids) id = 100 - id;
  doc.update(TensorView(ids.data(), DType::i32, {batch, length}, Device::cuda(0)));
  made.run(problem.tensors);
  EXPECT_EQ(gathers, 2);
  expect_same();
  fake_runtime().on_launch = nullptr;
}

TEST_F(RunTimeKernel, CountsTilesByADeviceTensorOnceItWasRead) {
  using symbols::k, symbols::off, symbols::q;
  std::vector<std::int32_t> ids(length);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = std::int32_t(i / 128);
  SideTensor there("doc", TensorView(ids.data(), DType::i32, {length}, Device::cuda(0)));
  const SideTensor here("doc", TensorView(ids.data(), DType::i32, {length}));
  const Plan made = plan(dense(mask(there[q + off] == there[k])));
  const Plan known = plan(dense(mask(here[q + off] == here[k])));
  EXPECT_EQ(made.count_tiles().none, 0) << "nothing is known of it";
  made.read_side_tensors(nullptr);
  EXPECT_EQ(made.count_tiles(), known.count_tiles());
  EXPECT_GT(known.count_tiles().none, 0);
  there.update(TensorView(ids.data(), DType::i32, {length}, Device::cuda(0)));
  EXPECT_EQ(made.count_tiles().none, 0);
}

TEST_F(RunTimeKernel, RefusesTensorsOfAnotherDevice) {
  using namespace symbols;
  const SideTensor doc("doc",
                       TensorView(device_memory(1, 7), DType::i32, {length}, Device::cuda(1)));
  EXPECT_THAT([&] { (void)plan(dense(mask(doc[k] == 0))); },
              ::testing::ThrowsMessage<Error>(HasSubstr("reads a side tensor on cuda:1")));
}

}  // namespace
}  // namespace tilefold::testing
