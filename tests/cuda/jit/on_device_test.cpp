// Law: a formula from text computes on a device what float64 computes, and to the bit what the
// kernel computes that nvcc made of the same functor; new arguments compile nothing. Skipped
// without a device or NVRTC. Not run on hardware yet.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "cuda/backend.hpp"
#include "cuda/compiled_formulas.hpp"
#include "cuda/formula_compiler.hpp"
#include "cuda/formula_problems.hpp"
#include "support/device_run.hpp"
#include "support/only_kernels.hpp"
#include "support/random.hpp"
#include "support/text_formula.hpp"
#include "support/verify.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::testing {
namespace {

namespace text = score::as_text;

struct SideData {
  static constexpr int positions = 8192, sequences = 8, reach = 40, heads = 64;
  std::vector<std::int32_t> ids = std::vector<std::int32_t>(positions * sequences);
  std::vector<float> distances = std::vector<float>(heads * (2 * reach + 1));
  std::unique_ptr<LookupTable> table;

  SideData() {
    Random random(5);
    for (int s = 0; s < sequences; ++s)
      for (int i = 0, left = 0, id = 0; i < positions; ++i, --left) {
        if (left == 0) left = random.between(1, 300), ++id;
        ids[std::size_t(s * positions + i)] = id;
      }
    for (float& v : distances) v = float(random.normal());
    table =
        std::make_unique<LookupTable>(TensorView(ids.data(), DType::i32, {sequences, positions}));
  }
  score::Table bias() const { return {distances.data(), 2 * reach + 1, heads, 2 * reach + 1}; }
};

/// A formula from text, and the same of types that tests/CMakeLists.txt has a kernel made for.
struct Twins {
  const char* name;
  DType type;
  int head_dim;
  Mask text_mask;
  ScoreChange text_score;
  Mask mask;
  ScoreChange score;
};

std::vector<Twins> twins(const SideData& side) {
  const text::SameDocument documents{side.table->lookup()};
  const text::ByDistance distance{side.bias(), SideData::reach};
  return {
      {"documents",
       DType::bf16,
       128,
       causal() && text_mask(documents, text::SameDocument_text),
       {},
       mask(score::Causal{} && score::Document{side.table->lookup()}),
       {}},
      {"relative", DType::bf16, 128, causal(), text_change(distance, text::ByDistance_text),
       causal(), change(score::RelativeBias{side.bias(), SideData::reach})},
      {"dilated", DType::f16, 96, text_mask(text::Dilated{3}, text::Dilated_text), softcap(20),
       mask(Dilated{3}), change(score::SoftCap{20})},
  };
}

using Asked = std::vector<std::pair<Features, KeyForm>>;
using F = Feature;

std::vector<GeneratorLimits> limits_of(const Twins& of, const Asked& asked) {
  std::vector<GeneratorLimits> all;
  for (const auto& [features, keys] : asked) {
    all.push_back(limits_of(of.type, of.head_dim, features, keys));
  }
  return all;
}

std::vector<GeneratorLimits> limits_of(const Twins& of) {
  return limits_of(of, {
                           {{F::lse}, KeyForm::dense},
                           {{F::partial, F::grouped_heads}, KeyForm::dense},
                           {{F::uneven_lengths, F::key_lengths, F::query_lengths}, KeyForm::dense},
                           {{F::ragged_query, F::lse, F::empty_sequences}, KeyForm::ragged},
                           {{F::one_long_row, F::grouped_heads}, KeyForm::dense},
                           {{F::fewer_keys_than_queries, F::sinks}, KeyForm::dense},
                           {{F::padded_rows, F::scale, F::other_out_type}, KeyForm::dense},
                           {{F::ragged_query, F::device_lengths, F::lse}, KeyForm::ragged},
                           {{F::batch_invariant, F::few_rows}, KeyForm::dense},
                       });
}

class TextOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const cuda::Presence here = cuda::presence();
    if (!here.absence.empty()) GTEST_SKIP() << here.absence;
    const cuda::FormulaCompiler compiler = cuda::formula_compiler();
    if (!compiler.absence.empty()) GTEST_SKIP() << compiler.absence;
  }
};

TEST_F(TextOnDevice, ComputesWhatFloat64Does) {
  const SideData side;
  for (const Twins& of : twins(side)) {
    int computed = 0;
    for (const GeneratorLimits& limits : limits_of(of))
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        RandomProblem problem = drawn_with(8000 + seed, limits, of.text_mask, of.text_score);
        const ProblemVerdict verdict = check_problem(problem, Backend::cuda, 3);
        EXPECT_EQ(verdict.fault + verdict.refusal, "") << of.name << "\n" << problem.describe();
        computed += verdict.refusal.empty();
      }
    EXPECT_EQ(computed, 54) << of.name;
  }
}

TEST_F(TextOnDevice, HasTheBitsOfTheKernelThatNvccMade) {
  const SideData side;
  for (const Twins& of : twins(side))
    for (const GeneratorLimits& limits : limits_of(of))
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        RandomProblem a = drawn_with(9000 + seed, limits, of.text_mask, of.text_score);
        RandomProblem b = drawn_with(9000 + seed, limits, of.mask, of.score);
        a.problem.options.backend = b.problem.options.backend = Backend::cuda;
        if (a.problem.tensors.out.empty()) continue;
        compute(a.problem);
        compute(b.problem);
        EXPECT_EQ(output_of(a.problem), output_of(b.problem)) << of.name << "\n" << a.describe();
      }
}

TEST_F(TextOnDevice, Sm80ComputesWhatFloat64DoesOverPagesAndPackedHeads) {
  const OnlyKernels only("sm80");
  const SideData side;
  for (const Twins& of : twins(side)) {
    int computed = 0;
    for (const GeneratorLimits& limits :
         limits_of(of, {{{F::lse, F::grouped_heads}, KeyForm::paged},
                        {{F::page_list, F::pages_hnd, F::scale}, KeyForm::paged},
                        {{F::one_long_row, F::grouped_heads, F::lse}, KeyForm::paged},
                        {{F::device_lengths, F::partial}, KeyForm::paged},
                        {{F::grouped_heads, F::sinks, F::uneven_lengths}, KeyForm::dense},
                        {{F::ragged_query, F::empty_sequences, F::grouped_heads}, KeyForm::ragged},
                        {{F::batch_invariant, F::few_rows}, KeyForm::dense}}))
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        RandomProblem problem = drawn_with(8500 + seed, limits, of.text_mask, of.text_score);
        const ProblemVerdict verdict = check_problem(problem, Backend::cuda, 3);
        EXPECT_EQ(verdict.fault + verdict.refusal, "") << of.name << "\n" << problem.describe();
        computed += verdict.refusal.empty();
      }
    EXPECT_EQ(computed, 42) << of.name;
  }
}

TEST_F(TextOnDevice, NewArgumentsCompileNothing) {
  GeneratorLimits limits;
  limits.work = 1e7;
  limits.demand = Demand{
      .query_dtype = DType::bf16, .head_dim = 64, .keys = KeyForm::dense, .mask = MaskForm::none};
  const auto run_with = [&](int step) {
    RandomProblem problem =
        drawn_with(7, limits, text_mask(text::Dilated{step}, text::Dilated_text), {});
    const ProblemVerdict verdict = check_problem(problem, Backend::cuda);
    EXPECT_EQ(verdict.fault + verdict.refusal, "") << step;
  };
  run_with(2);
  const cuda::FormulaCounts before = cuda::formula_counts();
  for (const int step : {1, 3, 4, 7}) run_with(step);
  const cuda::FormulaCounts after = cuda::formula_counts();
  EXPECT_EQ(after.compiled, before.compiled);
  EXPECT_EQ(after.from_disk, before.from_disk);
  EXPECT_GT(after.from_memory, before.from_memory);
}

}  // namespace
}  // namespace tilefold::testing
