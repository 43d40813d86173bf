// run() allocates nothing: every operator new of this program is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "tilefold/attention.hpp"

namespace {

std::atomic<long> allocations{0};
thread_local bool counting = false;  // this thread's allocations only: a pool's workers own theirs

void count() {
  if (counting) ++allocations;
}

}  // namespace

// The program's own definitions take the place of the library's for the whole process. Not inlined:
// gcc would see free() meet memory of operator new and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  count();
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  count();
  const auto align = std::size_t(alignment);
  void* memory = std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// std::stable_sort asks so for its scratch memory.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  count();
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace tilefold {
namespace {

struct Case {
  const char* name;
  DType dtype;
  int queries, keys;
  bool everything;  // softcap, mask composition, sinks, lse
};

class RunAllocatesNothing : public ::testing::TestWithParam<Case> {};

TEST_P(RunAllocatesNothing, AfterPrepare) {
  const Case& c = GetParam();
  const int heads = 2, dim = 32;
  const auto bytes = [&](int rows) {
    return std::vector<unsigned char>(std::size_t(rows * heads * dim * bytes_of(c.dtype)), 0);
  };
  auto q = bytes(c.queries), k = bytes(c.keys), v = bytes(c.keys), out = bytes(c.queries);
  std::vector<float> lse(std::size_t(heads * c.queries)), sinks(heads, 0.5f);
  Problem problem;
  problem.tensors.query = TensorView(q.data(), c.dtype, {1, c.queries, heads, dim});
  problem.tensors.key = TensorView(k.data(), c.dtype, {1, c.keys, heads, dim});
  problem.tensors.value = TensorView(v.data(), c.dtype, {1, c.keys, heads, dim});
  problem.tensors.out = OutputView(out.data(), c.dtype, {1, c.queries, heads, dim});
  problem.options.threads = 1;
  if (c.everything) {
    problem.options.mask = causal() && (window(100) || prefix(3));
    problem.options.softcap = 20.0;
    if (c.dtype != DType::f64) problem.tensors.lse = OutputView(lse.data(), {1, heads, c.queries});
    problem.tensors.sinks = TensorView(sinks.data(), {heads});
  }
  Plan made = plan(problem);
  made.prepare();
  const long before = allocations;
  counting = true;
  made.run(problem.tensors);
  counting = false;
  EXPECT_EQ(allocations - before, 0);
}

INSTANTIATE_TEST_SUITE_P(Cpu, RunAllocatesNothing,
                         ::testing::Values(Case{"prefill_f32", DType::f32, 200, 200, false},
                                           Case{"everything_f32", DType::f32, 200, 200, true},
                                           Case{"everything_f64", DType::f64, 70, 200, true},
                                           Case{"everything_bf16", DType::bf16, 200, 200, true},
                                           Case{"everything_f16", DType::f16, 200, 200, true},
                                           Case{"split_decode", DType::bf16, 1, 9000, true}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(CountingAllocator, Counts) {
  const long before = allocations;
  counting = true;
  const auto memory = std::make_unique<std::vector<int>>(10);
  counting = false;
  EXPECT_EQ(allocations - before, 2) << "the test above could not fail";
  EXPECT_EQ(memory->size(), 10u);
}

}  // namespace
}  // namespace tilefold
