// Law: run() refuses tensors that the plan's kernel cannot read, before it asks for a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tilefold/error.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// One dense problem whose tensors are said to be on a device; nothing reads them.
struct Described {
  std::vector<float> memory = std::vector<float>(4 * size + 64, 7.0f);
  static constexpr std::int64_t size = 64 * 2 * 64;

  Problem problem(DType dtype, bool with_pointers) {
    const Extents shape{1, 64, 2, 64};
    const auto at = [&](int index) -> char* {
      if (!with_pointers) return nullptr;
      const auto first = (reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64;
      return reinterpret_cast<char*>(first) + index * size * bytes_of(dtype);
    };
    Problem p;
    Tensors& t = p.tensors;
    t.query = TensorView(at(0), dtype, shape, Device::cuda(0));
    t.key = TensorView(at(1), dtype, shape, Device::cuda(0));
    t.value = TensorView(at(2), dtype, shape, Device::cuda(0));
    t.out = OutputView(at(3), dtype, shape, Device::cuda(0));
    return p;
  }
};

ErrorCode code_of_run(const Plan& plan, const Tensors& tensors, std::string& message) {
  try {
    plan.run(tensors);
  } catch (const Error& error) {
    message = error.what();
    return error.code();
  }
  message = "ran";
  return ErrorCode::invalid_argument;
}

TEST(CudaRunChecks, PointersOffSixteenBytesAreRefusedByName) {
  Described described;
  const Plan plan = tilefold::plan(described.problem(DType::bf16, false));
  ASSERT_THAT(plan.kernel(), StartsWith("sm90"));
  const Tensors right = described.problem(DType::bf16, true).tensors;
  std::string message;
  for (const char* name : {"query", "key", "value"}) {
    Tensors t = right;
    TensorView& moved = name[0] == 'q' ? t.query : name[0] == 'k' ? t.key : t.value;
    moved = moved.with_data(static_cast<const char*>(moved.data()) + 8);
    if (name[0] == 'v')
      t.out = OutputView(static_cast<char*>(t.out.data()) + 16, t.out.dtype(), t.out.shape(),
                         t.out.strides(), t.out.device());
    EXPECT_EQ(code_of_run(plan, t, message), ErrorCode::misaligned) << message;
    EXPECT_THAT(message, StartsWith(std::string(name) + " starts 8 bytes past a multiple of 16"));
  }
  // The output may start on any element.
  Tensors t = right;
  t.out = OutputView(static_cast<char*>(t.out.data()) + 2, t.out.dtype(), t.out.shape(),
                     t.out.strides(), t.out.device());
  EXPECT_NE(code_of_run(plan, t, message), ErrorCode::misaligned) << message;
}

TEST(CudaRunChecks, KernelsOfPlainLoadsTakeAnyElement) {
  Described described;
  const Plan plan = tilefold::plan(described.problem(DType::f32, false));
  ASSERT_THAT(plan.kernel(), StartsWith("any"));
  Tensors t = described.problem(DType::f32, true).tensors;
  t.query = t.query.with_data(static_cast<const char*>(t.query.data()) + 4);
  std::string message;
  EXPECT_NE(code_of_run(plan, t, message), ErrorCode::misaligned) << message;
}

TEST(CudaRunChecks, APlanWithAMisalignedPointerTakesAnotherKernel) {
  Described described;
  Problem problem = described.problem(DType::bf16, true);
  TensorView& key = problem.tensors.key;
  key = key.with_data(static_cast<const char*>(key.data()) + 8);
  const Plan plan = tilefold::plan(problem);
  EXPECT_THAT(plan.kernel(), StartsWith("any"));
  EXPECT_THAT(plan.explain(), HasSubstr("must start on multiples of 16"));
}

TEST(CudaRunChecks, OtherStridesAreAnotherPlan) {
  Described described;
  const Plan plan = tilefold::plan(described.problem(DType::bf16, false));
  Tensors t = described.problem(DType::bf16, true).tensors;
  t.key = TensorView(t.key.data(), t.key.dtype(), t.key.shape(), Extents{16384, 130, 64, 1},
                     t.key.device());
  std::string message;
  EXPECT_EQ(code_of_run(plan, t, message), ErrorCode::plan_mismatch) << message;
  EXPECT_THAT(message, StartsWith("key is bf16 [1, 64, 2, 64]"));
}

/// TILEFOLD_CUDA_KERNELS while it lives.
class OnlyKernels {
 public:
  explicit OnlyKernels(const char* prefix) { ::setenv("TILEFOLD_CUDA_KERNELS", prefix, 1); }
  ~OnlyKernels() { ::unsetenv("TILEFOLD_CUDA_KERNELS"); }
  OnlyKernels(const OnlyKernels&) = delete;
  OnlyKernels& operator=(const OnlyKernels&) = delete;
};

TEST(CudaKernelsVariable, TakesKernelsByTheBeginningOfTheirNames) {
  if (std::getenv("TILEFOLD_CUDA_KERNELS") != nullptr) GTEST_SKIP() << "it is set from outside";
  Described described;
  const Problem problem = described.problem(DType::bf16, false);
  for (const char* prefix : {"sm90", "sm80", "sm80 bf16 d64", "any"}) {
    const OnlyKernels only(prefix);
    EXPECT_THAT(tilefold::plan(problem).kernel(), StartsWith(prefix));
  }
  const OnlyKernels all("");
  EXPECT_THAT(tilefold::plan(problem).kernel(), StartsWith("sm90"));
}

TEST(CudaKernelsVariable, AValueThatMatchesNothingIsRefusedWithWhatThereIs) {
  if (std::getenv("TILEFOLD_CUDA_KERNELS") != nullptr) GTEST_SKIP() << "it is set from outside";
  Described described;
  const OnlyKernels only("sm70");
  try {
    tilefold::plan(described.problem(DType::bf16, false));
    FAIL() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), StartsWith("TILEFOLD_CUDA_KERNELS is 'sm70': no kernel's name"));
    for (const char* beginning : {"sm90 bf16", "sm90 f16", "sm80 bf16", "sm80 f16", "any 16"})
      EXPECT_THAT(error.what(), HasSubstr(beginning));
  }
}

}  // namespace
}  // namespace tilefold::testing
