// Laws of plan() for a formula that comes as text: built-in kernels first, then NVRTC; compiled
// once for all values of its arguments; an error of the text is plan()'s. No device is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "core/geometry.hpp"
#include "cuda/backend.hpp"
#include "cuda/formula_compiler.hpp"
#include "cuda/jit/temporary_folder.hpp"
#include "support/text_formula.hpp"
#include "tilefold/error.hpp"
#include "tilefold/expression.hpp"
#include "tilefold/plan.hpp"

// The text of no other test: the process compiles it here or nowhere.
TILEFOLD_AS_TEXT(
    Every, struct Every {
      int step;
      template <class N> TILEFOLD_HD auto keep(N q, N k, Place at) const {
        return floor_mod(q + N(at.offset) - k, step) == N(0);
      }
    };)

namespace tilefold::testing {
namespace {

using score::as_text::Dilated;
using score::as_text::Dilated_text;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Before the process's cache is first used.
const TemporaryFolder folder;
const Variable own_cache("TILEFOLD_CACHE_DIR", folder.inner("kernels").c_str());

Problem described(const Mask& mask, DType type = DType::bf16, int head_dim = 64) {
  Problem p;
  const Device device = Device::cuda(0);
  const Extents extents{2, 256, 4, head_dim};
  p.tensors.query = TensorView(nullptr, type, extents, device);
  p.tensors.key = p.tensors.value = p.tensors.query;
  p.tensors.out = OutputView(nullptr, type, extents, device);
  p.options.backend = Backend::cuda;
  p.options.mask = mask;
  return p;
}
Mask dilated(int step) { return text_mask(Dilated{step}, Dilated_text); }

std::string refusal_of(const Problem& problem) {
  try {
    return std::string("planned: ") + plan(problem).kernel();
  } catch (const Error& error) {
    return error.what();
  }
}

class TextFormulas : public ::testing::Test {
 protected:
  void SetUp() override {
    const cuda::FormulaCompiler compiler = cuda::formula_compiler();
    if (!compiler.absence.empty()) GTEST_SKIP() << compiler.absence;
  }
};

TEST_F(TextFormulas, AreCompiledOnceForAllValuesOfTheirArguments) {
  const auto every = [](int step) {
    return text_mask(score::as_text::Every{step}, score::as_text::Every_text);
  };
  const cuda::FormulaCounts before = cuda::formula_counts();
  const Plan first = plan(described(every(3)));
  EXPECT_STREQ(first.kernel(), "sm90 bf16 d64 192x128 nvrtc");
  EXPECT_THAT(first.explain(),
              HasSubstr("compiled   sm90 plain forward compiled at run time by NVRTC "));
  EXPECT_THAT(first.explain_json(),
              HasSubstr("\"compilation\": \"sm90 plain forward compiled at run"));
  EXPECT_EQ(cuda::formula_counts().compiled, before.compiled + 1);
  const Plan second = plan(described(every(4)));
  EXPECT_THAT(second.explain(),
              HasSubstr("compiled   sm90 plain forward compiled earlier by this"));
  EXPECT_EQ(cuda::formula_counts().compiled, before.compiled + 1);
  EXPECT_EQ(cuda::formula_counts().from_memory, before.from_memory + 1);
  EXPECT_EQ(cuda::formula_cache().directory, folder.inner("kernels"));
  EXPECT_GE(cuda::formula_cache().entries, 1u);
  EXPECT_GT(cuda::formula_cache().bytes, 100000u);
}

TEST_F(TextFormulas, AreJoinedWithBuiltIns) {
  Problem p = described(causal() && (dilated(3) || !window(10)), DType::f16, 40);
  p.options.score = softcap(20);
  const Plan made = plan(p);
  EXPECT_STREQ(made.kernel(), "sm90 f16 d64 192x128 nvrtc");
}

// Compiles nothing: only asked whether it would.
TEST_F(TextFormulas, OfPagedKeysAreForSm80) {
  Problem p = described(dilated(3));
  Tensors& t = p.tensors;
  const Device device = Device::cuda(0);
  t.key = t.value = TensorView(nullptr, DType::bf16, {64, 16, 4, 64}, device);
  const std::vector<std::int32_t> table(2 * 16), lengths{200, 100};
  t.pages.table = TensorView(table.data(), DType::i32, {2, 16});
  t.key_lengths = TensorView(lengths.data(), DType::i32, {2});
  const core::Geometry geometry = core::resolve(p);
  int takes = 0;
  for (const planner::Candidate& kernel : cuda::kernels()) {
    if (planner::refusal(kernel, geometry, p)) continue;
    EXPECT_THAT(kernel.name, AllOf(StartsWith("sm80 bf16"), ::testing::EndsWith("nvrtc")));
    ++takes;
  }
  EXPECT_GE(takes, 1);
}

// Compiles nothing: only asked which would.
TEST_F(TextFormulas, OfBlocksAreForTilesOfWholeBlocks) {
  const std::vector<std::int32_t> on(16, 1);
  const SideTensor block("block", TensorView(on.data(), DType::i32, {4, 4}));
  const auto takes = [&](const char* text) {
    const Problem p = described(parse_mask(text, {{block}, {}}));
    const core::Geometry geometry = core::resolve(p);
    std::vector<std::string> names;
    for (const planner::Candidate& kernel : cuda::kernels())
      if (!planner::refusal(kernel, geometry, p) &&
          std::string_view(kernel.name).starts_with("sm90"))
        names.push_back(kernel.name);
    return names;
  };
  EXPECT_EQ(takes("block[q // 128, k // 128] == 1")[0], "sm90 bf16 d64 128x128 nvrtc");
  EXPECT_EQ(takes("block[q // 96, k // 128] == 1")[0], "sm90 bf16 d64 192x128 nvrtc");
  EXPECT_EQ(takes("block[k // 128, k // 128] == 1")[0], "sm90 bf16 d64 192x128 nvrtc");
}

TEST_F(TextFormulas, BuiltInsNeedNoCompilation) {
  const Plan made = plan(described(causal() && window(100)));
  EXPECT_THAT(made.kernel(), Not(HasSubstr("nvrtc")));
  EXPECT_THAT(made.explain(),
              AllOf(HasSubstr("nvrtc sm90 (7 kernels): NVRTC compiles formulas that"),
                    Not(HasSubstr("compiled   "))));
}

TEST_F(TextFormulas, LargeOnesAreInterpreted) {
  using namespace symbols;
  const auto terms = [](int count) {
    Expression keep = k <= q + off;
    for (int i = 0; i < count; ++i) keep = keep && (k + i) % (i + 7) != 3;
    return mask(keep);
  };
  const Plan large = plan(described(terms(40)));
  EXPECT_THAT(large.kernel(), HasSubstr("interpreted"));
  EXPECT_THAT(large.explain(), HasSubstr("operations: above 100 NVRTC takes"));
  EXPECT_THAT(plan(described(terms(4))).kernel(), HasSubstr("nvrtc"));
}

TEST_F(TextFormulas, OthersAreRefusedWithAReason) {
  const Mask lambda = mask([](auto q, auto k, auto) { return k <= q; });
  EXPECT_THAT(refusal_of(described(dilated(3) && lambda)),
              HasSubstr("has a part without text for NVRTC: a C++ functor"));
  Problem p = described(dilated(3));
  p.options.softcap = 30;
  EXPECT_THAT(refusal_of(p), HasSubstr("beside the formula"));
  p = described(dilated(3));
  p.options.scale = -1;
  EXPECT_THAT(refusal_of(p), HasSubstr("scale"));
  p = described(dilated(3));
  p.options.positions = Positions{};
  p.options.positions->key.stride = 2;
  EXPECT_THAT(refusal_of(p), HasSubstr("one apart"));
  EXPECT_THAT(refusal_of(described(dilated(3), DType::f32)), HasSubstr("it multiplies in bf16"));
}

TEST_F(TextFormulas, AnErrorOfTheTextIsPlansAndNamesTheLine) {
  const FormulaText wrong{"Dilated", "struct Dilated {\n  int step;\n  nonsense;\n};"};
  EXPECT_THAT(
      refusal_of(described(text_mask(Dilated{3}, wrong))),
      AllOf(StartsWith("the formula does not compile"), HasSubstr("options.mask, line 3: ")));
  // What is no kernel's fault is plan()'s to tell where no text is compiled, too.
  const FormulaText larger{"Larger", "struct Larger { double a; };"};
  EXPECT_THAT(refusal_of(described(text_mask(Dilated{3}, larger))), HasSubstr("sizeof(Mask) == 4"));
}

// A process of its own, which has not looked for NVRTC yet.
TEST(TextFormulasDeathTest, WithoutNvrtcPlanSaysWhereItLooked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Variable none("TILEFOLD_NVRTC", "/nonexistent");
  const auto plan_and_tell = [] {
    std::fputs(refusal_of(described(dilated(3))).c_str(), stderr);
    std::exit(0);
  };
  EXPECT_EXIT(plan_and_tell(), ::testing::ExitedWithCode(0),
              "TILEFOLD_NVRTC is '/nonexistent': it must be");
}

}  // namespace
}  // namespace tilefold::testing
