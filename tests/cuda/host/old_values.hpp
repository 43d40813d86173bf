// A law of every kernel that holds a formula's values: a stream that is being captured never gets
// old ones, and prepare() brings the new ones, so that the captured run needs nothing.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/host/fake_runtime.hpp"
#include "tilefold/error.hpp"
#include "tilefold/expression.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::testing {

/// `scalar`: one that the problem's formula reads.
inline void expect_no_capture_of_old_values(const Problem& problem, Scalar& scalar) {
  Plan made = plan(problem);
  made.prepare();
  scalar.set(9);
  fake_runtime().captures = true;
  EXPECT_THAT([&] { made.run(problem.tensors); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("the formula has new values")));
  fake_runtime().captures = false;
  made.prepare();
  fake_runtime().captures = true;
  const FakeCalls before = fake_runtime().calls;
  EXPECT_NO_THROW(made.run(problem.tensors));
  EXPECT_EQ(fake_runtime().calls.allocations, before.allocations);
  EXPECT_EQ(fake_runtime().calls.copies, before.copies);
}

}  // namespace tilefold::testing
