// forward_bench time: TFLOPS of kernels at the shapes that papers report.
#pragma once

#include <cstdio>

#include "bench/cuda/forward/kernels.hpp"

namespace tilefold::bench::forward {

struct TimeOptions {
  int sequence = 0;          // 0: 512 to 16384
  int causal = -1;           // -1: both
  int together = 0;          // heads that causal blocks take in turn; 0: as the plan chooses
  std::FILE* csv = nullptr;  // kernel,batch,heads,head_dim,length,causal,ms,tflops
};

/// Prints one line a mask: 16384 tokens, hidden size 2048, the median of 25 launches queued behind
/// a spinning kernel, on two sets of inputs in turn that exceed the L2 cache together.
void time_kernel(const Kernel& kernel, const TimeOptions& options);

/// What stands above those lines.
void print_time_heading();

}  // namespace tilefold::bench::forward
