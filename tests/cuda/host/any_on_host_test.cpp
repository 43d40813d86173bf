// The plain-load kernels as they are written, on the CPU: whole runs of plans for CUDA, over a
// runtime whose device is the host's memory and whose launches are computed here, a thread of the
// host for each thread of a block. Law: what the accuracy rule asks, of formulas that are
// interpreted too. The three conversions that are PTX are computed by the library's own.
#include "cuda/ladder/block_on_host.hpp"
// After the words that it defines, and before the kernels:
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/geometry.hpp"
#include "cuda/formula_problems.hpp"
#include "cuda/host/fake_runtime.hpp"
#include "cuda/launch/device_functions.hpp"
#include "reference/attention.hpp"
#include "score/code_source.hpp"
#include "support/only_kernels.hpp"
#include "support/random.hpp"
#include "support/verify.hpp"
#include "tilefold/expression.hpp"
#include "tilefold/plan.hpp"

// Kernels of the library have these names too: those here are this file's alone.
#undef __global__
#define __global__ static
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
inline unsigned __ballot_sync(unsigned, bool vote) {
  std::vector<float>& lanes = tilefold::testing::running_block->lanes;
  const unsigned warp = threadIdx.x / 32 * 32;
  lanes[threadIdx.x] = vote ? 1.0f : 0.0f;
  __syncwarp();
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) votes |= unsigned(lanes[warp + lane]) << lane;
  __syncwarp();
  return votes;
}
inline bool __syncthreads_or(bool vote) {
  std::vector<float>& lanes = tilefold::testing::running_block->lanes;
  lanes[threadIdx.x] = vote ? 1.0f : 0.0f;
  __syncthreads();
  bool any = false;
  for (const float of : lanes) any = any || of != 0.0f;
  __syncthreads();
  return any;
}
inline void atomicOr(unsigned* word, unsigned bits) { std::atomic_ref(*word).fetch_or(bits); }

// Conversions of float16 and to bfloat16 are PTX: `asm` computes them here, by the names that
// tile/element.cuh gives their operands. A name that a conversion has not is found out here.
namespace tilefold::cuda::element {
inline float wide, x;
inline void convert(std::string_view instruction, float& to, unsigned short& narrow, float from) {
  if (instruction.find("cvt.f32.f16 ") != instruction.npos) to = to_float(float16{narrow});
  if (instruction.find("cvt.rn.f16.f32 ") != instruction.npos)
    narrow = round_to<float16>(from).bits;
  if (instruction.find("cvt.rn.bf16.f32 ") != instruction.npos)
    narrow = round_to<bfloat16>(from).bits;
}
}  // namespace tilefold::cuda::element
#define asm(...) convert(#__VA_ARGS__, wide, bits, x)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include "cuda/tile/element.cuh"
#pragma GCC diagnostic pop
#include "cuda/kernels/any/kernel.cuh"
#include "cuda/kernels/any/read_lengths.cuh"
#include "cuda/kernels/clear_rows.cuh"
#include "cuda/kernels/merge.cuh"
#include "cuda/kernels/side_tensor.cuh"
#undef asm

namespace tilefold::cuda::any {
alignas(64) long long shared[100 * 1024 / sizeof(long long)];
}  // namespace tilefold::cuda::any

namespace tilefold::testing {
namespace {

using cuda::ForwardParams;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Rows16 = cuda::any::Choice<cuda::any::ForwardConfig{16}>;
using Rows8 = cuda::any::Choice<cuda::any::ForwardConfig{8}>;

template <class T> const T& parameter(void** parameters, int index) {
  return *static_cast<const T*>(parameters[index]);
}

/// Of a kernel whose threads do not wait for each other.
template <class Kernel> void run_apart(int blocks, int threads, const Kernel& kernel) {
  for (int thread = 0; thread < blocks * threads; ++thread) {
    blockIdx.x = unsigned(thread / threads);
    threadIdx.x = unsigned(thread % threads);
    kernel();
  }
}

int interpreted_launches, other_launches;

/// Kernels around the forward. False: it is none of them.
bool compute_step(const void* function, int blocks, int threads, void** given) {
  const auto& p = parameter<ForwardParams>(given, 0);
  if (function == cuda::merge_function())
    run_apart(blocks, threads, [&] { cuda::merge_parts(p); });
  else if (function == cuda::clear_rows_function())
    run_apart(blocks, threads, [&] { cuda::clear_rows(p, parameter<cuda::OutputRows>(given, 1)); });
  else if (function == cuda::pad_rows_function())
    run_apart(blocks, threads, [&] { cuda::pad_rows(parameter<cuda::PaddedRows>(given, 0)); });
  else if (function == cuda::build_integer_cells_function())
    run_apart(blocks, threads, [&] {
      cuda::build_cells(parameter<score::SideArray<int>>(given, 0), parameter<int>(given, 1));
    });
  else if (function == cuda::build_real_cells_function())
    run_apart(blocks, threads, [&] {
      cuda::build_cells(parameter<score::SideArray<float>>(given, 0), parameter<int>(given, 1));
    });
  else if (function == cuda::read_lengths_function())
    run_blocks(blocks, threads,
               [&] { cuda::read_lengths(p, parameter<cuda::LengthSources>(given, 1)); });
  else if (function == cuda::any_read_lengths_function())
    run_blocks(blocks, threads, [&] {
      cuda::any::read_lengths_interpreted(p, parameter<cuda::LengthSources>(given, 1),
                                          parameter<cuda::any::FormulaPrograms>(given, 2));
    });
  else
    return false;
  return true;
}

template <class Rows> void compute_interpreted(int blocks, int threads, void** given) {
  ++interpreted_launches;
  run_blocks(blocks, threads, [&] {
    cuda::any::interpreted_forward<Rows>(parameter<ForwardParams>(given, 0),
                                         parameter<cuda::any::FormulaPrograms>(given, 1));
  });
}
template <class Rows> void compute_described(int blocks, int threads, void** given) {
  ++other_launches;
  run_blocks(blocks, threads,
             [&] { cuda::any::forward<Rows>(parameter<ForwardParams>(given, 0)); });
}

void compute_launch(const void* function, int blocks, int threads, void** given) {
  if (compute_step(function, blocks, threads, given)) return;
  if (function == cuda::any_interpreted_16())
    compute_interpreted<Rows16>(blocks, threads, given);
  else if (function == cuda::any_interpreted_8())
    compute_interpreted<Rows8>(blocks, threads, given);
  else if (function == cuda::any_forward_16())
    compute_described<Rows16>(blocks, threads, given);
  else if (function == cuda::any_forward_8())
    compute_described<Rows8>(blocks, threads, given);
  else
    FAIL() << "a kernel of another family was launched";
}

class AnyOnHost : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_runtime() = {};
    fake_runtime().compute = compute_launch;
    interpreted_launches = other_launches = 0;
  }
  void TearDown() override { fake_runtime() = {}; }

 private:
  OnlyKernels only_{"any"};
};

/// Small enough for a thread of the host a thread of a block.
GeneratorLimits small(int head_dim) {
  GeneratorLimits limits;
  limits.work = 3e4;
  limits.head_dim = head_dim;
  limits.query_length = 40;
  limits.key_length = 160;
  limits.formulas = FormulaParts::everything;
  return limits;
}

TEST_F(AnyOnHost, ComputesRandomProblemsAndFormulas) {
  for (std::uint64_t seed = 0; seed < 70; ++seed) {
    RandomProblem problem = make_random_problem(seed, small(70));
    const Options& o = problem.problem.options;
    const bool code = score::has_code(o.mask.node()) || score::has_code(o.score.node());
    if (problem.problem.tensors.query.dtype() == DType::f64 || (!code && seed % 8 != 0)) continue;
    const ProblemVerdict verdict = check_problem(problem, Backend::cuda);
    EXPECT_EQ(verdict.fault, "") << problem.describe();
    EXPECT_THAT(verdict.refusal, AnyOf("", HasSubstr(" code"))) << problem.describe();
  }
  EXPECT_GT(interpreted_launches, 25);
  EXPECT_GT(other_launches, 3);
}

TEST_F(AnyOnHost, ComputesFormulasOverWideHeads) {
  using namespace symbols;
  GeneratorLimits limits = small(1024);
  limits.work = 6e4;
  limits.demand = Demand{.features = {Feature::lse},
                         .query_dtype = DType::f32,
                         .head_dim = 640,
                         .keys = KeyForm::dense,
                         .mask = MaskForm::none};
  RandomProblem problem =
      drawn_with(0, limits, mask((q + off - k) % 3 != 1 || head == 1), change(s + tanh(s * 0.25)));
  const ProblemVerdict verdict = check_problem(problem, Backend::cuda);
  EXPECT_EQ(verdict.fault + verdict.refusal, "") << problem.describe();
  EXPECT_GT(interpreted_launches, 0);
}

/// A plan's tensors on the fake device, which the host reads.
class OnDevice {
 public:
  float* reals(std::int64_t count, Random& random) {
    auto* values = static_cast<float*>(space(count * std::int64_t(sizeof(float))));
    for (std::int64_t i = 0; i < count; ++i) values[i] = float(random.normal());
    return values;
  }
  std::int32_t* integers(const std::vector<std::int32_t>& from) {
    auto* values = static_cast<std::int32_t*>(space(std::int64_t(from.size() * 4)));
    std::copy(from.begin(), from.end(), values);
    return values;
  }

 private:
  void* space(std::int64_t bytes) {
    memory_.emplace_back(allocate_on_device(std::size_t(bytes)), free_on_device);
    return memory_.back().get();
  }
  std::vector<std::unique_ptr<void, void (*)(void*)>> memory_;
};

constexpr std::int64_t length = 48, dim = 8;

/// The same problem where it is computed on the host in float64.
struct Pair {
  Problem device, host;
};
Pair pair_of(OnDevice& memory, const Mask& mask) {
  Random random(3);
  const Extents shape{1, length, 1, dim};
  const auto both = [&](TensorView& there, TensorView& here) {
    const float* values = memory.reals(length * dim, random);
    there = TensorView(values, DType::f32, shape, Device::cuda(0));
    here = TensorView(values, DType::f32, shape);
  };
  Pair pair;
  both(pair.device.tensors.query, pair.host.tensors.query);
  both(pair.device.tensors.key, pair.host.tensors.key);
  both(pair.device.tensors.value, pair.host.tensors.value);
  pair.device.tensors.out =
      OutputView(memory.reals(length * dim, random), DType::f32, shape, Device::cuda(0));
  pair.device.options.mask = pair.host.options.mask = mask;
  return pair;
}
/// The largest difference from float64 of the rows of `pair`.
double difference(const Pair& pair) {
  std::vector<float> zeros(std::size_t(length * dim));
  Problem host = pair.host;
  host.tensors.out = OutputView(zeros.data(), {1, length, 1, dim});
  const core::Geometry geometry = core::resolve(host);
  const reference::Result exact = reference::forward({geometry, host.tensors, host.options});
  double worst = 0;
  for (int row = 0; row < int(length); ++row)
    for (int column = 0; column < int(dim); ++column) {
      const float got = pair.device.tensors.out.as<float>()[row * dim + column];
      const double far = std::fabs(double(got) - exact.out.at(0, row, 0)[column]);
      worst = far <= worst ? worst : far;  // NaN is the worst
    }
  return worst;
}

// What a formula says as built-ins do is data, also inside a negation, and belongs to the kernels
// that interpret nothing.
TEST_F(AnyOnHost, KeepsFormulasThatSayWhatBuiltInsSay) {
  OnDevice memory;
  for (const Mask& mask : {!parse_mask("k <= q + off"), causal() && !parse_mask("k <= q + off + 2"),
                           parse_mask("k <= q + off") || window(2, 5)}) {
    const Pair pair = pair_of(memory, mask);
    const Plan made = plan(pair.device);
    made.run(pair.device.tensors);
    EXPECT_LT(difference(pair), 1e-5) << mask.text();
  }
  EXPECT_EQ(interpreted_launches, 0);
}

TEST_F(AnyOnHost, SeesNewValuesAtTheNextRun) {
  using namespace symbols;
  OnDevice memory;
  std::vector<std::int32_t> ids(length), other(length);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = int(i / 11);
    other[i] = int(i / 7 % 2);
  }
  // One tensor on the host, one on the device.
  SideTensor doc("doc", TensorView(ids.data(), {length}));
  SideTensor there("there",
                   TensorView(memory.integers(other), DType::i32, {length}, Device::cuda(0)));
  Scalar reach("reach", 5);
  const Mask keep = mask(doc[q + off] == doc[k] || (q - k <= reach && k <= q && there[k] == 1));
  Pair pair = pair_of(memory, keep);
  // The host reads the device's tensor where it lies.
  const SideTensor here("there", TensorView(other.data(), {length}));
  pair.host.options.mask =
      mask(doc[q + off] == doc[k] || (q - k <= reach && k <= q && here[k] == 1));
  const Plan made = plan(pair.device);
  made.run(pair.device.tensors);
  EXPECT_LT(difference(pair), 1e-5);
  reach.set(20);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = int(i / 5);
  doc.update(TensorView(ids.data(), {length}));
  made.run(pair.device.tensors);
  EXPECT_LT(difference(pair), 1e-5);
}

TEST_F(AnyOnHost, NeedsNoPageThatTheFormulaHides) {
  using namespace symbols;
  OnDevice memory;
  Pair pair = pair_of(memory, mask(k >= 16 && (q - k) % 2 == 0));
  const auto paged = [&](const std::vector<std::int32_t>& table) {
    Problem p = pair.device;
    Tensors& t = p.tensors;
    for (TensorView* tensor : {&t.key, &t.value})
      *tensor = TensorView(tensor->data(), DType::f32, {6, 8, 1, dim}, Device::cuda(0));
    t.pages.table = TensorView(memory.integers(table), DType::i32, {1, 6}, Device::cuda(0));
    t.key_lengths = TensorView(memory.integers({int(length)}), DType::i32, {1}, Device::cuda(0));
    p.options.capacity.query_length = p.options.capacity.key_length = length;
    return p;
  };
  const Problem hidden = paged({-1, 99, 2, 3, 4, 5});
  const Plan first = plan(hidden);
  first.run(hidden.tensors);
  EXPECT_LT(difference(pair), 1e-5);
  EXPECT_EQ(first.status(), 0u);
  const Problem visible = paged({0, 1, 2, -1, 4, 5});
  const Plan second = plan(visible);
  second.run(visible.tensors);
  EXPECT_FALSE(difference(pair) < 1e30) << "a page that must be read gives NaN";
  EXPECT_EQ(second.status(), cuda::Status::page_out_of_range);
}

}  // namespace
}  // namespace tilefold::testing
