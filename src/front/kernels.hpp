// The kernels of every backend, in the order in which they are asked.
#pragma once

#include <span>

#include "plan/choose.hpp"

namespace tilefold {

/// CPU kernels first, then those of CUDA; each backend's fastest first. A backend's own number of a
/// kernel is its place here less the backend's first.
std::span<const planner::Candidate> all_kernels();
int first_cuda_kernel();

}  // namespace tilefold
