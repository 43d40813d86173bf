// The plain-load kernels as they are written, on the CPU: whole runs of plans for CUDA, over a
// runtime whose device is the host's memory and whose launches are computed here, a thread of the
// host for each thread of a block. Law: what the accuracy rule asks, of formulas that are
// interpreted too. Inputs and outputs are float32, save where no conversion of PTX is met.
#include "cuda/ladder/block_on_host.hpp"
// After the words that it defines, and before the kernels:
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "cuda/host/fake_runtime.hpp"
#include "cuda/launch/device_functions.hpp"
#include "score/code_source.hpp"
#include "support/only_kernels.hpp"
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
#define asm(...)  // conversions of float16 and to bfloat16, which no problem here meets
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

/// Whether the kernels read and write it without a conversion of PTX.
bool converts_nothing(const Problem& problem) {
  const Tensors& t = problem.tensors;
  for (const TensorView* tensor : {&t.query, &t.key, &t.value, &t.bias})
    if (tensor->present() && (tensor->dtype() == DType::f16 || tensor->dtype() == DType::e5m2))
      return false;
  return t.out.dtype() == DType::f32;
}

TEST_F(AnyOnHost, ComputesRandomProblemsAndFormulas) {
  GeneratorLimits limits;
  limits.work = 3e4;
  limits.head_dim = 70;
  limits.query_length = 40;
  limits.key_length = 160;
  limits.query_dtype = DType::f32;
  limits.formulas = FormulaParts::everything;
  int computed = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    RandomProblem problem = make_random_problem(seed, limits);
    const bool code = score::has_code(problem.problem.options.mask.node()) ||
                      score::has_code(problem.problem.options.score.node());
    if (!converts_nothing(problem.problem) || (!code && seed % 4 != 0)) continue;
    const ProblemVerdict verdict = check_problem(problem, Backend::cuda);
    EXPECT_EQ(verdict.fault, "") << problem.describe();
    verdict.refusal.empty() ? ++computed : ++refused;
    if (!verdict.refusal.empty()) std::printf("%s\n", verdict.refusal.c_str());
  }
  std::printf("%d computed, %d refused, %d %d launches\n", computed, refused, interpreted_launches,
              other_launches);
  EXPECT_GT(interpreted_launches, 10);
}

}  // namespace
}  // namespace tilefold::testing
