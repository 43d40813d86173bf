// Reads the kernel's accounts under /proc.
#include "bench/peak_memory.hpp"

#include <algorithm>
#include <fstream>
#include <string>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace tilefold::bench {

namespace {

// "VmHWM:     1928 kB"
std::optional<std::int64_t> field(const char* file, const std::string& name) {
  std::ifstream status(file);
  for (std::string word; status >> word;) {
    std::int64_t kibibytes = 0;
    if (word == name && status >> kibibytes) return kibibytes * 1024;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> peak_above(const std::function<void()>& call) {
#if defined(__GLIBC__)
  malloc_trim(0);  // freed memory that the heap keeps would serve the call and hide what it takes
#endif
  bool reset = false;
  {
    std::ofstream clear("/proc/self/clear_refs");
    reset = bool(clear << "5" << std::flush);
  }
  const auto before = field("/proc/self/status", "VmRSS:");
  call();
  const auto after = field("/proc/self/status", "VmHWM:");
  if (!reset || !before || !after) return std::nullopt;
  return std::max<std::int64_t>(0, *after - *before);
}

std::optional<std::int64_t> available_memory() { return field("/proc/meminfo", "MemAvailable:"); }

}  // namespace tilefold::bench
