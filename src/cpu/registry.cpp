#include "cpu/registry.hpp"

#include <cstring>
#include <vector>

#include "cpu/backend.hpp"
#include "cpu/bf16_kernels.hpp"
#include "cpu/highway_kernel.hpp"

namespace tilefold::cpu {

namespace {

/// What one core of a target does a cycle at best. Rates are derived: two ports, each a
/// multiply-add (SSE4: a multiplication and an addition) or a load of one vector a cycle; 16
/// instructions an exponential over two ports (docs/kernels/cpu.md). AMX: 16 x 16 x 32 products in
/// 16 cycles.
struct Rates {
  const char* suffix;  // of the kernel's name
  const char* instructions;
  double flops, exponentials, cache_bytes;
  int reuse;
};
constexpr Rates rates[] = {
    {"f32/avx3", "Highway AVX3, 16 lanes", 64, 2, 128, 8},
    {"f32/avx2", "Highway AVX2, 8 lanes", 32, 1, 64, 4},
    {"f32/sse4", "Highway SSE4, 4 lanes", 8, 0.3, 32, 4},
    {"f32/neon", "Highway NEON, 4 lanes", 16, 0.5, 32, 8},
    {"f32/portable", "Highway scalar", 2, 0.1, 8, 4},
    {"f64/avx3", "Highway AVX3, 8 lanes", 32, 0.7, 128, 8},
    {"f64/avx2", "Highway AVX2, 4 lanes", 16, 0.35, 64, 4},
    {"f64/sse4", "Highway SSE4, 2 lanes", 4, 0.1, 32, 4},
    {"f64/neon", "Highway NEON, 2 lanes", 8, 0.2, 32, 8},
    {"f64/portable", "Highway scalar", 2, 0.05, 16, 4},
    {"amx", "AMX tiles of bf16 pairs, f32 sums", 1024, 2, 128, 16},
    {"avx512", "AVX512-BF16 pair products, f32 sums", 64, 2, 128, 8},
};

const Rates& rates_of(const char* name) {
  const std::size_t length = std::strlen(name);
  for (const Rates& row : rates) {
    const std::size_t end = std::strlen(row.suffix);
    if (end <= length && std::strcmp(name + length - end, row.suffix) == 0) return row;
  }
  static constexpr Rates unknown{"", "", 2, 0.1, 8, 1};
  return unknown;
}

// The most query tiles of a block: they share each key tile that is brought in, which costs a page
// walk or two a row. The planner cuts blocks to what the second-level cache holds.
constexpr int tiles_of_block = 64;

template <class F> planner::Candidate candidate(const TileKernel<F>& kernel) {
  const Rates& r = rates_of(kernel.name());
  return {kernel.name(),
          Backend::cpu,
          kernel.element(),
          {kernel.lanes(), kernel.tile_keys(), tiles_of_block * kernel.lanes()},
          r.instructions,
          r.flops,
          r.exponentials,
          r.cache_bytes,
          r.reuse,
          nullptr,
          "cpu"};
}

// VDPBF16PS issues every second cycle on Intel's server cores, where it gains nothing over f32
// (docs/kernels/cpu_bf16.md), and every cycle on AMD's.
bool pair_products_are_fast() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

std::vector<const TileKernel<float>*> list_float_kernels() {
  const TileKernel<float>* pairs = bf16_avx512_kernel();
  const bool pairs_are_fast = pair_products_are_fast();
  std::vector<const TileKernel<float>*> list;
  if (bf16_amx_kernel() != nullptr) list.push_back(bf16_amx_kernel());
  if (pairs != nullptr && pairs_are_fast) list.push_back(pairs);
  list.push_back(&highway_f32_kernel(LaneCount::wide));
  if (pairs != nullptr && !pairs_are_fast) list.push_back(pairs);
  return list;
}

std::vector<planner::Candidate> list_candidates() {
  std::vector<planner::Candidate> list;
  for (const TileKernel<float>* kernel : float_kernels()) list.push_back(candidate(*kernel));
  list.push_back(candidate(double_kernel()));
  return list;
}

}  // namespace

std::span<const TileKernel<float>* const> float_kernels() {
  static const std::vector<const TileKernel<float>*> list = list_float_kernels();
  return list;
}

const TileKernel<double>& double_kernel() { return highway_f64_kernel(LaneCount::wide); }

std::span<const planner::Candidate> kernels() {
  static const std::vector<planner::Candidate> list = list_candidates();
  return list;
}

bool is_double(int index) { return index >= int(float_kernels().size()); }

KernelSet<float> float_set(int index) {
  return {*float_kernels()[std::size_t(index)], highway_f32_kernel(LaneCount::narrow),
          highway_f32_kernel(LaneCount::wide)};
}

KernelSet<double> double_set() {
  return {double_kernel(), highway_f64_kernel(LaneCount::narrow), double_kernel()};
}

}  // namespace tilefold::cpu
