#include "front/kernels.hpp"

#include <vector>

#include "cpu/backend.hpp"
#include "cuda/backend.hpp"

namespace tilefold {

std::span<const planner::Candidate> all_kernels() {
  static const std::vector<planner::Candidate> all = [] {
    std::vector<planner::Candidate> kernels(cpu::kernels().begin(), cpu::kernels().end());
    kernels.insert(kernels.end(), cuda::kernels().begin(), cuda::kernels().end());
    return kernels;
  }();
  return all;
}

int first_cuda_kernel() { return int(cpu::kernels().size()); }

}  // namespace tilefold
