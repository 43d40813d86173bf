// Laws of plans whose kernel interprets the formula, without a device and without NVRTC: which
// problems it takes and what it refuses, what explain() tells, and a launch that brings the
// formula's instructions, as new values of scalars and side tensors make them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "cuda/host/fake_runtime.hpp"
#include "cuda/host/old_values.hpp"
#include "cuda/kernels/any/programs.hpp"
#include "cuda/launch/device_functions.hpp"
#include "support/only_kernels.hpp"
#include "support/text_formula.hpp"
#include "tilefold/error.hpp"
#include "tilefold/expression.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::testing {
namespace {

using namespace symbols;
using score::as_text::Dilated;
using score::as_text::Dilated_text;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t sequences = 2, length = 96, heads = 4, kv_heads = 2;

struct Form {
  DType dtype = DType::f32;
  std::int64_t dim = 64, value_dim = 64;
};

Problem problem_of(const Mask& mask, const ScoreChange& change = {}, const Form& form = {}) {
  Problem problem;
  Tensors& t = problem.tensors;
  const auto tensor = [&](int number, std::int64_t of_heads, std::int64_t dim) {
    return TensorView(device_memory(0, number), form.dtype, {sequences, length, of_heads, dim},
                      Device::cuda(0));
  };
  t.query = tensor(0, heads, form.dim);
  t.key = tensor(1, kv_heads, form.dim);
  t.value = tensor(2, kv_heads, form.value_dim);
  t.out = OutputView(device_memory(0, 3), form.dtype, {sequences, length, heads, form.value_dim},
                     Device::cuda(0));
  problem.options.mask = mask;
  problem.options.score = change;
  problem.options.backend = Backend::cuda;
  return problem;
}
Mask every_third() { return mask((q + off - k) % 3 == 0); }

std::string refusal_of(const Problem& problem) {
  try {
    return std::string("none: ") + plan(problem).kernel();
  } catch (const Error& error) {
    return error.what();
  }
}

std::optional<cuda::any::FormulaPrograms> launched;  // with the last forward

class Interpreted : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_runtime() = {};
    fake_runtime().on_launch = [](const void* function, void** parameters) {
      if (function == cuda::any_interpreted_16() || function == cuda::any_interpreted_8())
        launched = *static_cast<const cuda::any::FormulaPrograms*>(parameters[1]);
    };
    launched.reset();
  }
  void TearDown() override { fake_runtime() = {}; }
  /// What the mask that was launched says: the fake device's memory is the host's.
  static bool keeps(int query, int key) {
    return score::interpreted<int>(launched->mask,
                                   score::Point<int>::of(query, key, 0.0f, {0, 0, 0, 96, 96, 0}))
        .truth;
  }
  static float changes(int number, float score, int query, int key) {
    return score::interpreted<int>(launched->changes[number].code,
                                   score::Point<int>::of(query, key, score, {0, 0, 0, 96, 96, 0}))
        .real;
  }
};

TEST_F(Interpreted, TakesWhatTensorCoresDoNot) {
  const Form odd{DType::f32, 33, 7}, wide{DType::f32, 700, 700};
  for (const Form& form : {Form{}, odd, Form{DType::f16, 33, 33}, Form{DType::bf16, 20, 12}})
    EXPECT_STREQ(plan(problem_of(every_third(), {}, form)).kernel(), "any 16 rows interpreted");
  EXPECT_STREQ(plan(problem_of(every_third(), {}, wide)).kernel(), "any 8 rows interpreted");
}

TEST_F(Interpreted, TakesOptionsBesideTheFormula) {
  const Form bf16{DType::bf16, 64, 64};
  Problem p = problem_of(every_third(), change(tanh(s)), bf16);
  p.options.softcap = 30;
  EXPECT_STREQ(plan(p).kernel(), "any 16 rows interpreted");
  p = problem_of(every_third(), {}, bf16);
  p.options.scale = -1;
  EXPECT_THAT(plan(p).kernel(), HasSubstr("interpreted"));
  p = problem_of(every_third(), {}, bf16);
  p.options.positions = Positions{};
  p.options.positions->key.stride = 2;
  EXPECT_STREQ(plan(p).kernel(), "any 16 rows interpreted");
}

TEST_F(Interpreted, LeavesBuiltInsToTheOthers) {
  for (const Mask& mask : {causal(), causal() && window(9), Mask(), tilefold::mask(k <= q + off)}) {
    const Plan made = plan(problem_of(mask));
    EXPECT_STREQ(made.kernel(), "any 16 rows");
    EXPECT_THAT(made.explain(), Not(HasSubstr("formula    ")));
  }
}

TEST_F(Interpreted, SaysSo) {
  const Plan made = plan(problem_of(every_third(), change(s * 0.5)));
  EXPECT_THAT(made.explain(),
              HasSubstr("formula    interpreted on the device, 12 instructions an"));
  EXPECT_THAT(made.explain_json(), HasSubstr("\"interpretation\": \"interpreted on the device"));
}

// A process of its own, which has not looked for NVRTC yet.
TEST(InterpretedDeathTest, SaysWhereNvrtcWasLookedFor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("TILEFOLD_NVRTC", "/nonexistent", 1);
  const auto explain = [] {
    const Plan made = plan(problem_of(every_third(), {}, {DType::bf16, 64, 64}));
    std::fputs((made.kernel() + (": " + made.explain())).c_str(), stderr);
    std::exit(0);
  };
  EXPECT_EXIT(explain(), ::testing::ExitedWithCode(0),
              "any 16 rows interpreted(.|\n)*formula    interpreted(.|\n)*"
              "TILEFOLD_NVRTC is '/nonexistent': it must be");
  ::unsetenv("TILEFOLD_NVRTC");
}

TEST_F(Interpreted, RefusesCodeInOneSentence) {
  const Mask lambda = mask([](auto i, auto j, auto) { return j <= i; });
  EXPECT_THAT(refusal_of(problem_of(every_third() || lambda)),
              HasSubstr("has a part that is C++ code: it interprets formulas that expressions or "
                        "texts build"));
  EXPECT_THAT(refusal_of(problem_of(text_mask(Dilated{3}, Dilated_text))),
              AllOf(HasSubstr("options.mask ("), HasSubstr("has a part that is C++ code")));
  const ScoreChange squared =
      tilefold::change([](auto score, auto, auto, auto) { return score * score; });
  EXPECT_THAT(refusal_of(problem_of(every_third(), change(tanh(s)).then(squared))),
              AllOf(HasSubstr("options.score ("), HasSubstr("has a part that is C++ code")));
}

TEST_F(Interpreted, RefusesWhatNeedsTooManyValues) {
  Expression a = q, b = k;
  for (int i = 1; i <= 90; ++i) {
    const Expression term = (q * i) ^ (k >> (i % 3));
    a = max(a, term) ^ 1;
    b = min(b, term) ^ 2;
  }
  EXPECT_THAT(refusal_of(problem_of(mask(a < b))),
              HasSubstr("needs more than 64 values at a time: the interpreter holds no more"));
  ScoreChange chain = change(tanh(s));
  for (int i = 0; i < 6; ++i) chain = chain.then(change(s * 1.5 + 1.0));
  EXPECT_THAT(refusal_of(problem_of({}, chain)),
              HasSubstr("options.score chains 7 formulas: the interpreter holds 6"));
}

TEST_F(Interpreted, IsLaunchedWithItsPrograms) {
  const Problem problem = problem_of(causal() && every_third(),
                                     softcap(20).then(change(s + 2.0 * real(k))).then(softcap(9)));
  const Plan made = plan(problem);  // keeps what was launched
  made.run(problem.tensors);
  ASSERT_TRUE(launched.has_value());
  for (int i = 0; i < 20; ++i)
    for (int j = 0; j < 20; ++j) EXPECT_EQ(keeps(i, j), score::floor_mod(i - j, 3) == 0);
  ASSERT_EQ(launched->change_count, 1);
  EXPECT_EQ(launched->changes[0].steps_before, 1) << "behind the first softcap";
  EXPECT_EQ(changes(0, 0.5f, 3, 4), 8.5f);
}

TEST_F(Interpreted, TakesNewValuesWithoutMemory) {
  std::vector<std::int32_t> ids(length, 1);
  SideTensor doc("doc", TensorView(ids.data(), DType::i32, {length}));
  Scalar reach("reach", 7);
  const Problem problem = problem_of(mask(doc[q + off] == doc[k] && q + off - k <= reach));
  const Plan made = plan(problem);
  made.run(problem.tensors);
  EXPECT_TRUE(keeps(10, 3));
  EXPECT_FALSE(keeps(10, 2));
  const FakeCalls before = fake_runtime().calls;
  made.run(problem.tensors);
  EXPECT_EQ(fake_runtime().calls.copies, before.copies) << "nothing is new";
  reach.set(9);
  ids[3] = 4;
  doc.update(TensorView(ids.data(), DType::i32, {length}));
  made.run(problem.tensors);
  EXPECT_TRUE(keeps(10, 2));
  EXPECT_FALSE(keeps(10, 3));
  EXPECT_GT(fake_runtime().calls.copies, before.copies);
  EXPECT_EQ(fake_runtime().calls.allocations, before.allocations) << "the same sizes";
}

TEST_F(Interpreted, IsNotCapturedWithOldValues) {
  Scalar reach("reach", 7);
  const Problem problem = problem_of(mask((q + off - k) % 2 <= reach));
  expect_no_capture_of_old_values(problem, reach);
}

}  // namespace
}  // namespace tilefold::testing
