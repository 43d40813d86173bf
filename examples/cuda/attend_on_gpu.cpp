// Attention on CUDA tensors and on the caller's stream: planned once, run for every layer, with the
// result held against the CPU's.
//
//   attend_on_gpu          exit code 0: right; 1: wrong; 77: this machine has no CUDA device
//
// plan() is host code and needs no device. prepare() loads kernels and allocates; run() enqueues on
// the stream and returns: it allocates nothing, waits for nothing and may be captured in a graph.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tilefold/attention.hpp"

namespace {

using tilefold::float16;

constexpr int batch = 2, length = 512, query_heads = 8, kv_heads = 2, head_dim = 128, layers = 3;

void require(cudaError_t result, const char* what) {
  if (result != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
}

struct DeviceFree {
  void operator()(void* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<void, DeviceFree>;

DeviceMemory allocate(std::size_t bytes) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes), "cudaMalloc");
  return DeviceMemory(memory);
}

/// A tensor [batch, length, heads, head_dim] here and on the device.
struct Twin {
  explicit Twin(int heads)
      : shape{batch, length, heads, head_dim},
        host(std::size_t(batch) * length * std::size_t(heads) * head_dim),
        device(allocate(bytes())) {}
  std::size_t bytes() const { return host.size() * sizeof(float16); }
  void fill(int seed) {
    for (std::size_t i = 0; i < host.size(); ++i)
      host[i] = tilefold::round_to<float16>(std::sin(0.37f * float(i % 9973) + float(seed)));
  }
  void upload(cudaStream_t stream) const {
    require(cudaMemcpyAsync(device.get(), host.data(), bytes(), cudaMemcpyHostToDevice, stream),
            "copy to the device");
  }

  tilefold::Extents shape;
  std::vector<float16> host;
  DeviceMemory device;
};

/// What a plan needs to know of a layer: dtypes, shapes, where the memory is.
tilefold::Tensors on_device(const Twin& q, const Twin& k, const Twin& v, const Twin& out) {
  constexpr auto f16 = tilefold::DType::f16;
  const auto device = tilefold::Device::cuda(0);
  tilefold::Tensors t;
  t.query = {q.device.get(), f16, q.shape, device};
  t.key = {k.device.get(), f16, k.shape, device};
  t.value = {v.device.get(), f16, v.shape, device};
  t.out = {out.device.get(), f16, out.shape, device};
  return t;
}

/// Largest difference between `got` and the same attention on the CPU.
float difference_to_cpu(const Twin& q, const Twin& k, const Twin& v,
                        const std::vector<float16>& got, const tilefold::Options& options) {
  std::vector<float16> want(got.size());
  tilefold::attend({q.host.data(), q.shape}, {k.host.data(), k.shape}, {v.host.data(), v.shape},
                   {want.data(), q.shape}, options);
  float largest = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    largest =
        std::max(largest, std::fabs(tilefold::to_float(got[i]) - tilefold::to_float(want[i])));
  return largest;
}

int attend_every_layer(const tilefold::Options& options) {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  Twin q(query_heads), k(kv_heads), v(kv_heads), out(query_heads);

  tilefold::Problem problem;
  problem.tensors = on_device(q, k, v, out);
  problem.options = options;
  tilefold::Plan plan = tilefold::plan(problem);
  plan.prepare();
  std::printf("%s, %zu bytes of workspace\n", plan.kernel(), plan.workspace_bytes());

  float largest = 0;
  for (int layer = 0; layer < layers; ++layer) {
    q.fill(3 * layer), k.fill(3 * layer + 1), v.fill(3 * layer + 2);
    for (const Twin* input : {&q, &k, &v}) input->upload(stream);
    tilefold::RunOptions run;
    run.stream = stream;
    plan.run(problem.tensors, run);  // other layers may bring other pointers
    require(cudaMemcpyAsync(out.host.data(), out.device.get(), out.bytes(), cudaMemcpyDeviceToHost,
                            stream),
            "copy from the device");
    require(cudaStreamSynchronize(stream), "the stream");
    largest = std::max(largest, difference_to_cpu(q, k, v, out.host, options));
  }
  require(cudaStreamDestroy(stream), "the stream's end");
  std::printf("%d layers, at most %.1e from the CPU\n", layers, double(largest));
  return largest < 4e-3f ? 0 : 1;  // two f16 roundings of values below 1
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("this machine has no CUDA device\n");
    return 77;
  }
  try {
    return attend_every_layer({.mask = tilefold::causal() && tilefold::window(255)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attend_on_gpu: %s\n", error.what());
    return 1;
  }
}
