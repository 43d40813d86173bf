// What a measurement has to say about where it was made.
#pragma once

#include <string>
#include <vector>

namespace tilefold::bench {

struct Machine {
  std::string cpu;                    // "Intel(R) Xeon(R) Processor"
  int cores = 0;                      // logical processors that this process may use
  std::vector<std::string> features;  // instruction sets that the tool looks for and finds
  std::string amx;  // "granted", "refused by the operating system", "not in this CPU"
};
Machine this_machine();

/// The commit this was built from; "-dirty" behind it where the tree differed.
const char* commit();
/// "GNU 12.2.0, Release"
const char* compiler();
/// "tbb" or "std"
const char* thread_library();
/// "2026-11-30"
std::string today();

}  // namespace tilefold::bench
