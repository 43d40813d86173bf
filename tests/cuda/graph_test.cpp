// Law: a captured run reads its tensors, lengths and page table anew at each replay, on every
// family of kernels. Skipped, saying so, where there is no device.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "cuda/backend.hpp"
#include "cuda/runtime/buffer.hpp"
#include "support/random.hpp"
#include "tilefold/dtype.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::testing {
namespace {

using cuda::DeviceBuffer;
using cuda::require_success;

template <class T> void set(const DeviceBuffer& buffer, const std::vector<T>& values) {
  require_success(
      cudaMemcpy(buffer.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
      "copy");
}

std::vector<bfloat16> random_elements(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<bfloat16> elements(count);
  for (bfloat16& x : elements) x = round_to<bfloat16>(float(random.normal()));
  return elements;
}

/// Paged decode in bf16: 2 sequences, 8 heads over 2, up to 4096 keys, so that rows are split.
struct Decode {
  static constexpr int batch = 2, heads = 8, kv_heads = 2, dim = 64, page = 16, width = 256,
                       pages = 2 * width;
  static constexpr std::size_t query_size = batch * heads * dim,
                               pool_size = std::size_t{pages} * page * kv_heads * dim;
  DeviceBuffer q = DeviceBuffer(query_size * 2), k = DeviceBuffer(pool_size * 2),
               v = DeviceBuffer(pool_size * 2), out = DeviceBuffer(query_size * 2),
               table = DeviceBuffer(batch * width * 4), lengths = DeviceBuffer(batch * 4);

  Problem problem() const {
    const Device device = Device::cuda(0);
    Problem p;
    Tensors& t = p.tensors;
    t.query = TensorView(q.data(), DType::bf16, {batch, 1, heads, dim}, device);
    t.key = TensorView(k.data(), DType::bf16, {pages, page, kv_heads, dim}, device);
    t.value = TensorView(v.data(), DType::bf16, {pages, page, kv_heads, dim}, device);
    t.out = OutputView(out.data(), DType::bf16, {batch, 1, heads, dim}, device);
    t.pages.table = TensorView(table.data(), DType::i32, {batch, width}, device);
    t.key_lengths = TensorView(lengths.data(), DType::i32, {batch}, device);
    p.options.mask = causal();
    p.options.capacity.query_length = 1;
    p.options.capacity.key_length = width * page;
    return p;
  }
  /// Another step: other queries, other pages, other lengths.
  void change(int step, std::int32_t first_length, std::int32_t second_length) const {
    set(q, random_elements(query_size, std::uint64_t(3 * step)));
    set(k, random_elements(pool_size, std::uint64_t(3 * step + 1)));
    set(v, random_elements(pool_size, std::uint64_t(3 * step + 2)));
    std::vector<std::int32_t> ids;
    for (int i = 0; i < pages; ++i) ids.push_back((i * 37 + 11 * step) % pages);  // 37 is odd
    set(table, ids);
    set(lengths, std::vector<std::int32_t>{first_length, second_length});
  }
  std::vector<std::uint16_t> result() const {
    require_success(cudaDeviceSynchronize(), "the run");
    std::vector<std::uint16_t> bits(query_size);
    require_success(cudaMemcpy(bits.data(), out.data(), out.bytes(), cudaMemcpyDeviceToHost),
                    "copy");
    return bits;
  }
};

class CudaGraphs : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const cuda::Presence here = cuda::presence();
    if (!here.absence.empty()) GTEST_SKIP() << here.absence;
    ::setenv("TILEFOLD_CUDA_KERNELS", GetParam(), 1);
  }
  void TearDown() override { ::unsetenv("TILEFOLD_CUDA_KERNELS"); }
};

TEST_P(CudaGraphs, ReplaysReadEverythingAnew) {
  const Decode decode;
  const Problem problem = decode.problem();
  decode.change(0, 100, 200);
  Plan plan = tilefold::plan(problem);
  ASSERT_EQ(std::string(plan.kernel()).rfind(GetParam(), 0), 0u) << plan.kernel();
  plan.prepare();
  cudaStream_t stream = nullptr;
  require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  require_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  RunOptions options;
  options.stream = stream;
  plan.run(problem.tensors, options);
  cudaGraph_t graph = nullptr;
  require_success(cudaStreamEndCapture(stream, &graph), "end of capture");
  cudaGraphExec_t replay = nullptr;
  require_success(cudaGraphInstantiate(&replay, graph, 0), "instantiation");
  std::vector<std::uint16_t> former;
  int step = 1;
  for (const auto& [first, second] : {std::pair{4096, 1}, {0, 1500}, {17, 4095}, {2048, 2048}}) {
    decode.change(step++, first, second);
    require_success(cudaMemset(decode.out.data(), 0xff, decode.out.bytes()), "cudaMemset");
    require_success(cudaGraphLaunch(replay, stream), "replay");
    const std::vector<std::uint16_t> replayed = decode.result();
    EXPECT_NE(replayed, former);
    former = replayed;
    const Plan fresh = tilefold::plan(problem);
    require_success(cudaMemset(decode.out.data(), 0xff, decode.out.bytes()), "cudaMemset");
    fresh.run(problem.tensors);
    EXPECT_EQ(replayed, decode.result()) << first << " and " << second << " keys";
    EXPECT_EQ(plan.status(), 0u);
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

INSTANTIATE_TEST_SUITE_P(Families, CudaGraphs, ::testing::Values("sm80", "any"));

}  // namespace
}  // namespace tilefold::testing
