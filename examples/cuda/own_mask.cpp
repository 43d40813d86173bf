// Attends under a mask of one's own on a GPU and holds the result against the CPU's.
//
//   own_mask               exit code 0: right; 1: wrong; 77: this machine has no CUDA device
#include "own_mask.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "tilefold/attention.hpp"

namespace {

using tilefold::bfloat16;

constexpr int batch = 2, length = 700, heads = 4, head_dim = 64;
const tilefold::Extents shape{batch, length, heads, head_dim};
constexpr std::size_t elements = std::size_t{batch} * length * heads * head_dim;
constexpr std::size_t bytes = elements * sizeof(bfloat16);

void require(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
}

std::vector<bfloat16> wave(float phase) {
  std::vector<bfloat16> values(elements);
  for (std::size_t i = 0; i < elements; ++i)
    values[i] = tilefold::round_to<bfloat16>(std::sin(0.37f * float(i % 9973) + phase));
  return values;
}

tilefold::Problem problem(void* q, void* k, void* v, void* out, tilefold::Device device) {
  tilefold::Problem p;
  p.tensors.query = {q, tilefold::DType::bf16, shape, device};
  p.tensors.key = {k, tilefold::DType::bf16, shape, device};
  p.tensors.value = {v, tilefold::DType::bf16, shape, device};
  p.tensors.out = {out, tilefold::DType::bf16, shape, device};
  p.options.mask = tilefold::mask(Dilated{3});
  return p;
}

int attend() {
  std::vector<bfloat16> q = wave(0), k = wave(1), v = wave(2), on_cpu(elements), on_gpu(elements);
  const tilefold::Problem host =
      problem(q.data(), k.data(), v.data(), on_cpu.data(), tilefold::Device::cpu());
  tilefold::plan(host).run(host.tensors);

  void* allocated = nullptr;
  require(cudaMalloc(&allocated, 4 * bytes));
  char* const memory = static_cast<char*>(allocated);
  int i = 0;
  for (const auto* values : {&q, &k, &v})
    require(cudaMemcpy(memory + bytes * std::size_t(i++), values->data(), bytes,
                       cudaMemcpyHostToDevice));
  const tilefold::Problem device = problem(memory, memory + bytes, memory + 2 * bytes,
                                           memory + 3 * bytes, tilefold::Device::cuda(0));
  tilefold::Plan plan = tilefold::plan(device);
  plan.run(device.tensors);
  require(cudaMemcpy(on_gpu.data(), memory + 3 * bytes, bytes, cudaMemcpyDeviceToHost));
  require(cudaFree(memory));

  float apart = 0;
  for (std::size_t e = 0; e < elements; ++e)
    apart =
        std::max(apart, std::fabs(tilefold::to_float(on_cpu[e]) - tilefold::to_float(on_gpu[e])));
  std::printf("%s: at most %.1e from the CPU\n", plan.kernel(), double(apart));
  return apart <= 0.016f ? 0 : 1;
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("this machine has no CUDA device");
    return 77;
  }
  try {
    return attend();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_mask: %s\n", error.what());
    return 1;
  }
}
