// explain() says which term of a mask could not decide tiles whose elements agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tilefold/expression.hpp"
#include "tilefold/plan.hpp"

namespace tilefold {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string explained(const Mask& mask) {
  const Extents shape{1, 512, 2, 64};
  Problem problem;
  problem.tensors.query = TensorView(nullptr, DType::f32, shape);
  problem.tensors.key = problem.tensors.value = problem.tensors.query;
  problem.tensors.out = OutputView(nullptr, DType::f32, shape);
  problem.options.mask = mask;
  return plan(problem).explain();
}

TEST(Bluntness, NamesTheTermThatIntervalsCannotFollow) {
  using namespace symbols;
  // A square is never negative; bounds of a product of two numbers cannot know that they are one.
  const std::string text = explained(mask(k <= q + off && (k - q) * (k - q) >= 0));
  EXPECT_THAT(text, HasSubstr("blunt"));
  EXPECT_THAT(text, HasSubstr("(k - q) * (k - q)"));
  EXPECT_THAT(text, Not(HasSubstr("blunt      k <= off + q")));
}

TEST(Bluntness, HasNothingToSayOfSharpMasks) {
  using namespace symbols;
  std::vector<int> ids(512);
  for (int i = 0; i < 512; ++i) ids[std::size_t(i)] = i / 128;
  const SideTensor doc("doc", TensorView(ids.data(), {512}));
  EXPECT_THAT(explained(mask(k <= q + off && doc[q + off] == doc[k])), Not(HasSubstr("blunt")));
  EXPECT_THAT(explained(causal() && window(100)), Not(HasSubstr("blunt")));
}

}  // namespace
}  // namespace tilefold
