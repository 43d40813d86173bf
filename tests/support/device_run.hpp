// A problem of host tensors, computed on a CUDA device: inputs travel there with poison around
// them, outputs come back.
//
//   compute(problem, LengthHome::device);   // plans and runs; problem.options.backend says where
#pragma once

#include "support/device_description.hpp"

namespace tilefold::testing {

/// plan() and run(). With Backend::cuda the tensors are copied to device 0, computed there and out
/// and lse copied back, gaps included. Throws what plan() and run() throw, and Error(overlap) where
/// the device wrote outside an output or into an input.
void compute(const Problem& problem, LengthHome lengths = LengthHome::host);

}  // namespace tilefold::testing
