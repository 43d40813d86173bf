// Asks /proc and CPUID.
#include "bench/machine.hpp"

#include <array>
#include <ctime>
#include <fstream>
#include <thread>

#include "commit.hpp"
#include "cpu/bf16_cpu.hpp"
#include "cpu/bf16_kernels.hpp"

namespace tilefold::bench {

namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::vector<std::string> features_found() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  const auto add = [&](bool has, const char* name) {
    if (has) found.emplace_back(name);
  };
  __builtin_cpu_init();
  add(__builtin_cpu_supports("sse4.2"), "sse4.2");
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(cpu::cpu_has(cpu::Bf16Extension::avx512), "avx512bf16");
  add(cpu::cpu_has(cpu::Bf16Extension::amx), "amx-bf16");
#endif
  return found;
}

std::string amx_state() {
#if defined(__x86_64__)
  if (cpu::cpu_has(cpu::Bf16Extension::amx))
    return cpu::bf16_amx_kernel() != nullptr ? "granted" : "refused by the operating system";
#endif
  return "not in this CPU";
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cpu = cpu_model();
  machine.cores = int(std::thread::hardware_concurrency());
  machine.features = features_found();
  machine.amx = amx_state();
  return machine;
}

const char* commit() { return TILEFOLD_COMMIT; }
const char* compiler() { return TILEFOLD_COMPILER; }
const char* thread_library() { return TILEFOLD_THREADS_NAME; }

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return text.data();
}

}  // namespace tilefold::bench
