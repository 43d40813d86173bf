// Which of the bf16 instruction sets the CPU has and the operating system keeps over a task switch.
// Compiled for the plainest CPU: these lines run before anything is known about this one.
#pragma once

#if defined(__x86_64__)

#include <cpuid.h>

#include <cstdint>

namespace tilefold::cpu {

enum class Bf16Extension { avx512, amx };

/// XCR0: the register files that the operating system saves. Valid only where CPUID says OSXSAVE.
inline std::uint64_t saved_register_files() {
  std::uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

/// AMX also needs the kernel's permission, which is asked for where the AMX kernel is made.
inline bool cpu_has(Bf16Extension extension) {
  constexpr std::uint32_t osxsave = 1u << 27;
  constexpr std::uint32_t avx512_f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
  constexpr std::uint32_t avx512_bf16 = 1u << 5;
  constexpr std::uint32_t amx_bf16_tile = 1u << 22 | 1u << 24;
  constexpr std::uint64_t zmm_state = 0xe6, tile_state = 0x60000;
  const auto all = [](std::uint64_t have, std::uint64_t need) { return (have & need) == need; };

  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !all(ecx, osxsave)) return false;
  const std::uint64_t saved = saved_register_files();
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  if (!all(ebx, avx512_f_dq_bw_vl) || !all(saved, zmm_state)) return false;
  const bool amx = all(edx, amx_bf16_tile) && all(saved, tile_state);
  if (!__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) || !all(eax, avx512_bf16)) return false;
  return extension == Bf16Extension::avx512 || amx;
}

}  // namespace tilefold::cpu

#endif
