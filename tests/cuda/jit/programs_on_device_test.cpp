// Law: a formula built at run time computes on a device what float64 computes, whatever it reads;
// new values of scalars and side tensors are seen by the next run and compile nothing; a tensor
// that lies on the device gives the bits of the same tensor on the host. Each twice: compiled by
// NVRTC into the tensor-core kernels, and interpreted by the family `any`. Skipped without a
// device, the first without NVRTC too. Not run on hardware yet.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/backend.hpp"
#include "cuda/formula_compiler.hpp"
#include "cuda/formula_problems.hpp"
#include "score/code_source.hpp"
#include "support/device_run.hpp"
#include "support/only_kernels.hpp"
#include "support/random.hpp"
#include "support/verify.hpp"
#include "tilefold/expression.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::testing {
namespace {

/// What the formulas read: large enough for every problem that is drawn here.
struct Material {
  static constexpr int positions = 8192, sequences = 8, heads = 64, drafts = 64;
  std::vector<std::int32_t> ids = std::vector<std::int32_t>(positions * sequences);
  std::vector<std::int32_t> prefix = std::vector<std::int32_t>(sequences);
  std::vector<std::int32_t> blocks = std::vector<std::int32_t>(64 * 64);
  std::vector<float> slopes = std::vector<float>(heads);
  std::unique_ptr<bool[]> tree{new bool[drafts * drafts]};
  std::vector<SideTensor> tensors;
  std::vector<Scalar> scalars = {Scalar("w", 100), Scalar("n", 4), Scalar("cap", 20.0)};

  Material() {
    Random random(5);
    for (int s = 0; s < sequences; ++s)
      for (int i = 0, left = 0, id = 0; i < positions; ++i, --left) {
        if (left == 0) left = random.between(1, 300), ++id;
        ids[std::size_t(s * positions + i)] = id;
      }
    for (std::int32_t& length : prefix) length = random.between(0, 200);
    for (std::int32_t& block : blocks) block = random.chance(0.25) ? 1 : 0;
    for (float& slope : slopes) slope = float(-random.uniform(0, 0.5));
    for (int i = 0; i < drafts * drafts; ++i) tree[i] = i % (drafts + 1) == 0 || random.chance(0.3);
    tensors = {SideTensor("doc", TensorView(ids.data(), {sequences, positions})),
               SideTensor("prefix", TensorView(prefix.data(), {sequences})),
               SideTensor("blocks", TensorView(blocks.data(), {64, 64})),
               SideTensor("slope", TensorView(slopes.data(), {heads})),
               SideTensor("tree", TensorView(tree.get(), {drafts, drafts}))};
  }
  Names names() const { return {tensors, scalars}; }
};

struct NamedFormula {
  const char* name;
  DType type;
  int head_dim;
  const char* mask;
  const char* score;  // null: unchanged
};
constexpr NamedFormula formulas[] = {
    {"causal", DType::bf16, 64, "k <= q + off", nullptr},
    {"documents", DType::bf16, 128, "k <= q + off and doc[batch, q + off] == doc[batch, k]",
     nullptr},
    {"window, sinks", DType::f16, 128, "k <= q + off and (q + off - k <= w or k < n)", nullptr},
    {"prefix LM", DType::bf16, 192, "k <= q + off or k < prefix[batch]", nullptr},
    {"blocks", DType::f16, 64, "blocks[(q + off) // 128 % 64, k // 128 % 64] == 1", nullptr},
    {"tree", DType::bf16, 96, "k < Sk - 64 or tree[q + 64 - Sq, k - Sk + 64]", nullptr},
    {"reals", DType::bf16, 64, "abs(real(q + off - k)) * 0.5 <= 3.0 * real(w)", nullptr},
    {"alibi", DType::bf16, 128, "k <= q + off", "s + slope[head] * real(q + off - k)"},
    {"softcap", DType::f16, 256, "true", "cap * tanh(s / cap)"},
    {"by entry", DType::bf16, 64, "k <= q + off",
     "s + select(doc[batch, k] % 2 == 0, 0.25, -0.5) * sigmoid(s)"},
};

Mask mask_of(const NamedFormula& of, const Names& names) { return parse_mask(of.mask, names); }
ScoreChange score_of(const NamedFormula& of, const Names& names) {
  return of.score == nullptr ? ScoreChange() : parse_score(of.score, names);
}

/// What the names of the kernels begin with: those that are compiled, or those that interpret.
constexpr std::string_view compiled = "sm", interpreted = "any";

class ProgramOnDevice : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    const cuda::Presence here = cuda::presence();
    if (!here.absence.empty()) GTEST_SKIP() << here.absence;
    const cuda::FormulaCompiler compiler = cuda::formula_compiler();
    if (GetParam() == compiled && !compiler.absence.empty()) GTEST_SKIP() << compiler.absence;
  }

 private:
  OnlyKernels only_{std::string(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(Kernels, ProgramOnDevice, ::testing::Values(compiled, interpreted),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(ProgramOnDevice, ComputesWhatFloat64Does) {
  using F = Feature;
  const std::vector<std::pair<Features, KeyForm>> asked = {
      {{F::lse}, KeyForm::dense},
      {{F::partial, F::grouped_heads}, KeyForm::dense},
      {{F::ragged_query, F::lse, F::empty_sequences}, KeyForm::ragged},
      {{F::one_long_row, F::grouped_heads}, KeyForm::dense},
      {{F::fewer_keys_than_queries, F::sinks}, KeyForm::dense},
      {{F::ragged_query, F::device_lengths, F::lse}, KeyForm::ragged},
  };
  const Material material;
  for (const NamedFormula& of : formulas) {
    int computed = 0;
    for (const auto& [features, keys] : asked)
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        RandomProblem problem =
            drawn_with(8000 + seed, limits_of(of.type, of.head_dim, features, keys),
                       mask_of(of, material.names()), score_of(of, material.names()));
        const ProblemVerdict verdict = check_problem(problem, Backend::cuda, 3);
        EXPECT_EQ(verdict.fault + verdict.refusal, "") << of.name << "\n" << problem.describe();
        computed += verdict.refusal.empty();
      }
    EXPECT_EQ(computed, 24) << of.name;
  }
}

TEST_P(ProgramOnDevice, SeesNewValuesAndCompilesNothing) {
  Material material;
  const NamedFormula& of = formulas[2];  // window, sinks
  const GeneratorLimits limits = limits_of(of.type, of.head_dim, {Feature::lse}, KeyForm::dense);
  const Mask mask = mask_of(of, material.names());
  const auto check = [&] {
    RandomProblem problem = drawn_with(7, limits, mask, {});
    const ProblemVerdict verdict = check_problem(problem, Backend::cuda);
    EXPECT_EQ(verdict.fault + verdict.refusal, "");
  };
  check();
  const cuda::FormulaCounts before = cuda::formula_counts();
  for (const int w : {1, 17, 3000}) {
    material.scalars[0].set(w);
    check();
  }
  EXPECT_EQ(cuda::formula_counts().compiled, before.compiled);
}

TEST_P(ProgramOnDevice, ReadsTensorsThatLieThere) {
  const Material material;
  void* memory = nullptr;
  const std::size_t bytes = material.ids.size() * sizeof(std::int32_t);
  ASSERT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(memory, material.ids.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
  const Extents shape{Material::sequences, Material::positions};
  const SideTensor there("doc", TensorView(memory, DType::i32, shape, Device::cuda(0)));
  const NamedFormula& of = formulas[1];
  const GeneratorLimits limits =
      limits_of(of.type, of.head_dim, {Feature::uneven_lengths}, KeyForm::dense);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    RandomProblem host = drawn_with(seed, limits, mask_of(of, material.names()), {});
    RandomProblem device = drawn_with(seed, limits, mask_of(of, {{there}, {}}), {});
    host.problem.options.backend = device.problem.options.backend = Backend::cuda;
    compute(host.problem);
    compute(device.problem);
    EXPECT_EQ(output_of(host.problem), output_of(device.problem)) << host.describe();
  }
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

/// Every type, head dimension and layout that no tensor-core kernel takes.
TEST(InterpreterOnDevice, ComputesRandomProblemsAndFormulas) {
  const cuda::Presence here = cuda::presence();
  if (!here.absence.empty()) GTEST_SKIP() << here.absence;
  const OnlyKernels only{std::string(interpreted)};
  GeneratorLimits limits;
  limits.formulas = FormulaParts::everything;
  int programs = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomProblem problem = make_random_problem(seed, limits);
    const Options& o = problem.problem.options;
    if (!score::has_code(o.mask.node()) && !score::has_code(o.score.node())) continue;
    const ProblemVerdict verdict = check_problem(problem, Backend::cuda, 3);
    EXPECT_EQ(verdict.fault, "") << problem.describe();
    programs += verdict.refusal.empty();
  }
  EXPECT_GT(programs, 50);
}

}  // namespace
}  // namespace tilefold::testing
