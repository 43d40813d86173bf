// Prints what run() costs the host beside the driver: its time over a CUDA runtime without a
// device, and how often it asks the driver. The driver's own times come on top.
//
//   build/run_cost
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "cuda/host/fake_runtime.hpp"
#include "support/only_kernels.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::testing {
namespace {

struct Point {
  const char* name;
  const char* family;
  DType dtype = DType::bf16;
  std::int64_t batch = 2, queries = 4096, keys = 4096, heads = 16, kv_heads = 16;
  bool ragged = false, lse = false;
};

/// Ragged: `batch` sequences of `queries` rows, their borders on the host.
Problem problem_of(const Point& p, std::vector<std::int32_t>& borders) {
  constexpr std::int64_t dim = 128;
  const Device device = Device::cuda(0);
  const auto shape = [&](std::int64_t rows, std::int64_t heads) {
    return p.ragged ? Extents{p.batch * rows, heads, dim} : Extents{p.batch, rows, heads, dim};
  };
  Problem problem;
  Tensors& t = problem.tensors;
  t.query = TensorView(device_memory(0, 0), p.dtype, shape(p.queries, p.heads), device);
  t.key = TensorView(device_memory(0, 1), p.dtype, shape(p.keys, p.kv_heads), device);
  t.value = TensorView(device_memory(0, 2), p.dtype, shape(p.keys, p.kv_heads), device);
  t.out = OutputView(device_memory(0, 3), p.dtype, shape(p.queries, p.heads), device);
  if (p.lse)
    t.lse = OutputView(device_memory(0, 4), DType::f32, {p.batch, p.heads, p.queries}, device);
  problem.options.mask = causal();
  if (!p.ragged) return problem;
  for (std::int64_t b = 0; b <= p.batch; ++b) borders.push_back(std::int32_t(b * p.queries));
  t.cu_seqlens_q = t.cu_seqlens_k = TensorView(borders.data(), {p.batch + 1});
  return problem;
}

double nanoseconds(const Plan& plan, const Tensors& tensors) {
  constexpr int rounds = 200, runs = 1000;
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i) plan.run(tensors);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count() / runs);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

void print(const Point& point) {
  const OnlyKernels only(point.family);
  std::vector<std::int32_t> borders;
  const Problem problem = problem_of(point, borders);
  const Plan made = plan(problem);
  made.run(problem.tensors);
  fake_runtime() = {};
  made.run(problem.tensors);
  const FakeCalls calls = fake_runtime().calls;
  std::printf("%-26s %5.0f ns beside %d launches, %d pointers, %d maps, %d addresses, %d devices\n",
              point.name, nanoseconds(made, problem.tensors), calls.launches,
              calls.pointer_places + calls.pointer_attributes, calls.maps_encoded,
              calls.addresses_replaced, calls.get_device + calls.set_device);
}

}  // namespace
}  // namespace tilefold::testing

int main() {
  using tilefold::DType;
  using tilefold::testing::Point;
  const Point points[] = {
      {.name = "sm90", .family = "sm90"},
      {.name = "sm90, 16/4 heads, lse", .family = "sm90", .kv_heads = 4, .lse = true},
      {.name = "sm90, split decode", .family = "sm90", .batch = 1, .queries = 1, .keys = 65536},
      {.name = "sm90, 32 ragged", .family = "sm90", .batch = 32, .ragged = true},
      {.name = "sm80", .family = "sm80"},
      {.name = "any, f32", .family = "any", .dtype = DType::f32},
  };
  for (const Point& point : points) tilefold::testing::print(point);
}
