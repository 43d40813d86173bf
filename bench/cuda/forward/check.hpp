// forward_bench check: kernels against float64 on the host.
#pragma once

#include "bench/cuda/forward/kernels.hpp"

namespace tilefold::bench::forward {

/// Runs a kernel on some twenty problems, twice each, outputs poisoned before; prints a line for
/// each that is wrong or not repeatable to the bit, then one for the kernel. Throws Error where the
/// device fails.
bool check(const Kernel& kernel);

}  // namespace tilefold::bench::forward
