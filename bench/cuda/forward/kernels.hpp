// The kernels that forward_bench checks and times: all of the sm80 registry and its candidates.
#pragma once

#include <string>
#include <vector>

#include "cuda/kernels/sm80/config.hpp"

namespace tilefold::bench::forward {

struct Kernel {
  std::string name;  // "d64_128x128_w4_s2_Qsmem_b2*": a star marks an entry of the registry
  cuda::sm80::ForwardConfig config;
  const void* function;  // __global__ void(ForwardParams)
};

std::vector<Kernel> kernels();

}  // namespace tilefold::bench::forward
