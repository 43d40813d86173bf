// Fills tensors with the same numbers on every machine.
#include "bench/dense_problem.hpp"

#include <cmath>
#include <cstdint>

namespace tilefold::bench {

namespace {

// splitmix64; two halves of 32 bits make one normal number (Box and Muller).
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  float operator()() {
    const std::uint64_t x = bits();
    const float a = (float(x >> 40) + 1) * 0x1p-24f, b = float(x & 0xffffff) * 0x1p-24f;
    return std::sqrt(-2 * std::log(a)) * std::cos(6.2831853f * b);
  }

 private:
  std::uint64_t state_;
};

files::OwnedTensor random_tensor(DType dtype, const Extents& shape, std::uint64_t seed) {
  files::OwnedTensor tensor = files::allocate(dtype, shape);
  // Long tensors repeat a block of normal numbers: drawing them would take longer than attention.
  std::vector<float> block(65521);
  Normal normal(seed);
  for (float& x : block) x = normal();
  const std::int64_t count = tensor.view().element_count();
  void* data = tensor.output().data();
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = block[std::size_t(i) % block.size()];
    if (dtype == DType::f32)
      static_cast<float*>(data)[i] = x;
    else if (dtype == DType::bf16)
      static_cast<bfloat16*>(data)[i] = round_to<bfloat16>(x);
    else
      static_cast<float16*>(data)[i] = round_to<float16>(x);
  }
  return tensor;
}

}  // namespace

DenseProblem::DenseProblem(const Shape& s, int threads) {
  const Extents extents{s.batch, s.tokens, s.heads, s.head_dim};
  query = random_tensor(s.dtype, extents, 1);
  key = random_tensor(s.dtype, extents, 2);
  value = random_tensor(s.dtype, extents, 3);
  out = files::allocate(s.dtype, extents);
  problem.tensors.query = query.view();
  problem.tensors.key = key.view();
  problem.tensors.value = value.view();
  problem.tensors.out = out.output();
  if (s.causal) problem.options.mask = causal();
  problem.options.threads = threads;
}

RaggedDescription::RaggedDescription(int count, int longest) {
  Normal normal(4);
  cu_seqlens.push_back(0);
  for (int i = 0; i < count; ++i)
    cu_seqlens.push_back(cu_seqlens.back() + 1 + std::int32_t(normal.bits() % unsigned(longest)));
  const std::int64_t total = cu_seqlens.back();
  const TensorView tensor(nullptr, DType::bf16, {total, 8, 128});
  problem.tensors.query = problem.tensors.key = problem.tensors.value = tensor;
  problem.tensors.out = OutputView(nullptr, DType::bf16, {total, 8, 128});
  problem.tensors.cu_seqlens_q = problem.tensors.cu_seqlens_k =
      TensorView(cu_seqlens.data(), {std::int64_t(cu_seqlens.size())});
  problem.options.mask = causal();
}

}  // namespace tilefold::bench
