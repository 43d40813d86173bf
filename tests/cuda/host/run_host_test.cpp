// Laws of run() that need no device: a run that is refused launches nothing; one with other
// pointers launches what a plan made for them would; and neither allocates nor asks the driver
// twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "cuda/host/fake_runtime.hpp"
#include "cuda/kernels/sm90/forward/params.hpp"
#include "support/only_kernels.hpp"
#include "tilefold/error.hpp"
#include "tilefold/plan.hpp"

namespace {
long allocations = 0;
}

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tilefold::testing {
namespace {

using cuda::sm90::KernelParams;
using cuda::sm90::OutputPath;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int64_t batch = 2, length = 512, heads = 4, dim = 128;

/// Each tensor in an allocation of its own, from number `first` on.
Problem dense(int first, DType dtype = DType::bf16) {
  Problem problem;
  Tensors& t = problem.tensors;
  const Extents shape{batch, length, heads, dim};
  const Device device = Device::cuda(0);
  t.query = TensorView(device_memory(0, first), dtype, shape, device);
  t.key = TensorView(device_memory(0, first + 1), dtype, shape, device);
  t.value = TensorView(device_memory(0, first + 2), dtype, shape, device);
  t.out = OutputView(device_memory(0, first + 3), dtype, shape, device);
  t.lse = OutputView(device_memory(0, first + 4), DType::f32, {batch, heads, length}, device);
  problem.options.mask = causal();
  return problem;
}

/// [batch, length, 3, heads, dim]: q, k and v in one buffer.
Problem packed() {
  Problem problem = dense(0);
  Tensors& t = problem.tensors;
  const Extents shape{batch, length, heads, dim};
  const Extents strides{length * 3 * heads * dim, 3 * heads * dim, dim, 1};
  TensorView* views[] = {&t.query, &t.key, &t.value};
  for (int i = 0; i < 3; ++i)
    *views[i] = TensorView(device_memory(0, 0) + 2 * i * heads * dim, DType::bf16, shape, strides,
                           Device::cuda(0));
  return problem;
}

KernelParams launched;

class RunOnTheHost : public ::testing::Test {
 protected:
  RunOnTheHost() { fake_runtime() = {}; }
  ~RunOnTheHost() override { fake_runtime() = {}; }

  /// A prepared plan that has run once, its calls forgotten.
  static Plan warm(const Problem& problem, const char* kernel) {
    Plan made = plan(problem);
    EXPECT_THAT(made.kernel(), StartsWith(kernel));
    made.run(problem.tensors);
    fake_runtime() = {};
    return made;
  }
  static FakeCalls calls() { return fake_runtime().calls; }

  /// What sm90 was launched with.
  static KernelParams parameters_of(const Plan& plan, const Tensors& tensors) {
    fake_runtime().on_launch = [](const void*, void** parameters) {
      std::memcpy(static_cast<void*>(&launched), parameters[0], sizeof launched);
    };
    plan.run(tensors);
    fake_runtime().on_launch = nullptr;
    return launched;
  }
};

bool same(const cuda::TensorMap& a, const cuda::TensorMap& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

TEST_F(RunOnTheHost, OtherPointersLaunchAsAPlanMadeForThem) {
  const Problem here = dense(0), there = dense(10);
  const KernelParams moved = parameters_of(warm(here, "sm90"), there.tensors);
  const KernelParams made = parameters_of(warm(there, "sm90"), there.tensors);
  EXPECT_TRUE(same(moved.query, made.query));
  EXPECT_TRUE(same(moved.key, made.key));
  EXPECT_TRUE(same(moved.value, made.value));
  EXPECT_TRUE(same(moved.out, made.out));
  EXPECT_EQ(moved.output_path, OutputPath::box);
  EXPECT_EQ(made.output_path, OutputPath::box);
  const void* query = nullptr;
  std::memcpy(&query, &moved.query, sizeof query);
  EXPECT_EQ(query, there.tensors.query.data()) << "the fake map begins with its address";
  EXPECT_EQ(moved.problem.out, there.tensors.out.data());
}

TEST_F(RunOnTheHost, ADescriptionPlansAsTensorsDo) {
  Problem described = dense(0);
  Tensors& t = described.tensors;
  for (TensorView* view : {&t.query, &t.key, &t.value}) *view = view->with_data(nullptr);
  const Plan made = plan(described);
  const KernelParams later = parameters_of(made, dense(0).tensors);
  const KernelParams at_once = parameters_of(plan(dense(0)), dense(0).tensors);
  EXPECT_TRUE(same(later.key, at_once.key));
  EXPECT_TRUE(same(later.value, at_once.value));
}

TEST_F(RunOnTheHost, AnOutputOffSixteenBytesLeavesByTheGeneralPath) {
  const Plan made = warm(dense(0), "sm90");
  Problem off = dense(0);
  OutputView& out = off.tensors.out;
  out = OutputView(static_cast<char*>(out.data()) + 2, out.dtype(), out.shape(), out.device());
  EXPECT_EQ(parameters_of(made, off.tensors).output_path, OutputPath::general);
  EXPECT_EQ(parameters_of(made, dense(0).tensors).output_path, OutputPath::box);
}

std::string refusal_of(const Plan& plan, const Tensors& tensors) {
  try {
    plan.run(tensors);
  } catch (const Error& error) {
    return error.what();
  }
  return "ran";
}

TEST_F(RunOnTheHost, RefusedPointersLaunchNothing) {
  static char on_host[64];
  for (const char* family : {"sm90", "sm80", "any"}) {
    const OnlyKernels only(family);
    const Plan made = warm(dense(0), family);
    for (const char* name : {"query", "key", "value"}) {
      const auto run_with = [&](const void* data) {
        Tensors t = dense(0).tensors;
        TensorView& view = name[0] == 'q' ? t.query : name[0] == 'k' ? t.key : t.value;
        view = view.with_data(data);
        return refusal_of(made, t);
      };
      EXPECT_THAT(run_with(on_host), HasSubstr(std::string(name) + " is said to be on cuda:0: its "
                                                                   "pointer is host memory"));
      EXPECT_THAT(run_with(device_memory(1, 0)), HasSubstr("its pointer is on cuda:1"));
      EXPECT_THAT(run_with(nullptr), HasSubstr(std::string(name) + " has a null pointer"));
      EXPECT_THAT(run_with(device_memory(0, 0) + 1), HasSubstr(std::string(name) + " starts 1"));
      EXPECT_THAT(run_with(device_memory(0, 3) + 4096), HasSubstr("out shares memory with "));
    }
    EXPECT_EQ(calls().launches, 0) << family;
    EXPECT_EQ(refusal_of(made, dense(0).tensors), "ran");
    EXPECT_GE(calls().launches, 1) << family;
  }
}

// Long keys and no rows: nothing to split, to merge or to launch.
TEST_F(RunOnTheHost, NoQueriesOverManyKeysAreARunAsAnyOther) {
  for (const char* family : {"sm90", "sm80", "any"})
    for (const Reproducibility mode :
         {Reproducibility::same_plan, Reproducibility::batch_invariant}) {
      const OnlyKernels only(family);
      Problem problem = dense(0);
      Tensors& t = problem.tensors;
      const Device device = Device::cuda(0);
      t.query = TensorView(device_memory(0, 0), DType::bf16, {batch, 0, heads, dim}, device);
      t.out = OutputView(device_memory(0, 3), DType::bf16, {batch, 0, heads, dim}, device);
      t.lse = OutputView();
      for (TensorView* keys : {&t.key, &t.value})
        *keys = TensorView(keys->data(), DType::bf16, {batch, 65536, 1, dim}, device);
      t.query = TensorView(device_memory(0, 0), DType::bf16, {batch, 0, heads, dim}, device);
      problem.options.reproducibility = mode;
      Plan made = plan(problem);
      EXPECT_NO_THROW(made.run(problem.tensors)) << family;
    }
}

TEST_F(RunOnTheHost, ARunAsksLittleOfTheDriver) {
  const Problem problem = dense(0);
  const Plan made = warm(problem, "sm90");
  const long before = allocations;
  made.run(problem.tensors);
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(calls().launches, 1);
  EXPECT_EQ(calls().pointer_places, 5) << "q, k, v, out, lse";
  EXPECT_EQ(calls().addresses_replaced, 4) << "q, k, v, out";
  EXPECT_EQ(calls().maps_encoded, 0);
  EXPECT_EQ(calls().pointer_attributes, 0);
  EXPECT_EQ(calls().set_device, 0) << "the device is the current one";
}

TEST_F(RunOnTheHost, ViewsOfOneBufferAreAskedForOnce) {
  const Problem problem = packed();
  const Plan made = warm(problem, "sm90");
  made.run(problem.tensors);
  EXPECT_EQ(calls().pointer_places, 3) << "qkv, out, lse";
  // A key elsewhere is asked for, wherever the query is.
  Tensors moved = problem.tensors;
  moved.key = moved.key.with_data(device_memory(1, 0));
  EXPECT_THAT(refusal_of(made, moved), HasSubstr("key is said to be on cuda:0"));
  EXPECT_EQ(calls().launches, 1);
}

TEST_F(RunOnTheHost, TheCallersDeviceStaysCurrent) {
  const Problem problem = dense(0);
  const Plan made = warm(problem, "sm90");
  fake_runtime().current_device = 1;
  made.run(problem.tensors);
  EXPECT_EQ(fake_runtime().current_device, 1);
  EXPECT_EQ(calls().set_device, 2) << "there and back";
}

}  // namespace
}  // namespace tilefold::testing
