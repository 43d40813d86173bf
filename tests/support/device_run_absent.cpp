// Runs of a build without CUDA: on the host only.
#include "support/device_run.hpp"

namespace tilefold::testing {

void compute(const Problem& problem, LengthHome) { plan(problem).run(problem.tensors); }

}  // namespace tilefold::testing
