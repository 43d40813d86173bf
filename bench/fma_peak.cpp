// Independent chains of multiply-adds: 12 chains hide a latency of 4 cycles on two ports and one of
// 6 on two.
#include "bench/fma_peak.hpp"

#include <algorithm>
#include <cstdint>

#include "bench/timing.hpp"
#include "core/parallel_for.hpp"
#include "cpu/bf16_cpu.hpp"

namespace tilefold::bench {

namespace {

constexpr int chains = 12;
constexpr std::int64_t rounds = 1 << 20;

// A burst returns the sum of its chains: a result that is used cannot be left out.
using Burst = float (*)(float seed);

using Vector128 = float __attribute__((vector_size(16)));
using Vector256 = float __attribute__((vector_size(32)));
using Vector512 = float __attribute__((vector_size(64)));

// Products and sums of one expression contract to one multiply-add where the target has it.
template <class Vector> [[gnu::always_inline]] inline float multiply_add(float seed) {
  Vector sum[chains];
  for (int i = 0; i < chains; ++i) sum[i] = Vector{} + (seed + float(i));
  const Vector factor = Vector{} + seed * 0.5f, term = Vector{} + seed * 0.25f;
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) sum[i] = sum[i] * factor + term;
  float total = 0;
  for (int i = 0; i < chains; ++i) total += sum[i][0];
  return total;
}

float burst_plain(float seed) { return multiply_add<Vector128>(seed); }

#if defined(__x86_64__)

__attribute__((target("avx512f"))) float burst_512(float seed) {
  return multiply_add<Vector512>(seed);
}
__attribute__((target("avx2,fma"))) float burst_256(float seed) {
  return multiply_add<Vector256>(seed);
}

// VDPBF16PS has no operator: the instruction is written out, one statement for all chains, eight
// times over. Compilers keep an array in memory that a loop of statements indexes.
__attribute__((target("avx512f"))) float burst_bf16(float seed) {
  static_assert(chains == 12);
  Vector512 s[chains];
  for (int i = 0; i < chains; ++i) s[i] = Vector512{} + (seed + float(i));
  const Vector512 pairs = Vector512{} + seed * 0.5f;
  for (std::int64_t r = 0; r < rounds; r += 8)
    __asm__ volatile(
        ".rept 8\n\t"
        "vdpbf16ps %12, %12, %0\n\tvdpbf16ps %12, %12, %1\n\t"
        "vdpbf16ps %12, %12, %2\n\tvdpbf16ps %12, %12, %3\n\t"
        "vdpbf16ps %12, %12, %4\n\tvdpbf16ps %12, %12, %5\n\t"
        "vdpbf16ps %12, %12, %6\n\tvdpbf16ps %12, %12, %7\n\t"
        "vdpbf16ps %12, %12, %8\n\tvdpbf16ps %12, %12, %9\n\t"
        "vdpbf16ps %12, %12, %10\n\tvdpbf16ps %12, %12, %11\n\t"
        ".endr"
        : "+v"(s[0]), "+v"(s[1]), "+v"(s[2]), "+v"(s[3]), "+v"(s[4]), "+v"(s[5]), "+v"(s[6]),
          "+v"(s[7]), "+v"(s[8]), "+v"(s[9]), "+v"(s[10]), "+v"(s[11])
        : "v"(pairs));
  float total = 0;
  for (int i = 0; i < chains; ++i) total += s[i][0];
  return total;
}

#endif

double best_rate(Burst burst, double flops_per_instruction, int threads) {
  const double flops = double(threads) * double(rounds) * chains * flops_per_instruction;
  volatile float sink = 0;
  double best = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const double seconds = seconds_of([&] {
      core::parallel_for(threads, threads, [&](std::int64_t, int slot) {
        const float total = burst(1.0f + float(slot));
        if (slot == 0) sink = total;
      });
    });
    best = std::max(best, flops / seconds);
  }
  return best;
}

}  // namespace

Peaks measure_peaks(int threads) {
  Peaks peaks;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) {
    peaks.vectors = "512-bit";
    peaks.f32_fma = best_rate(burst_512, 32, threads);
    if (cpu::cpu_has(cpu::Bf16Extension::avx512))
      peaks.bf16_dot = best_rate(burst_bf16, 64, threads);
    return peaks;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    peaks.vectors = "256-bit";
    peaks.f32_fma = best_rate(burst_256, 16, threads);
    return peaks;
  }
#endif
  peaks.vectors = "128-bit";
  peaks.f32_fma = best_rate(burst_plain, 8, threads);
  return peaks;
}

}  // namespace tilefold::bench
