// `tilefold bench forward` in a build that has no CUDA: it says so.
#include "bench/cuda/forward_figures.hpp"
#include "tilefold/error.hpp"

namespace tilefold::bench {

ForwardReport measure_forward(const ForwardOptions&,
                              const std::function<void(double, const std::string&)>&,
                              const std::function<void(const ForwardReport&)>&) {
  throw Error(ErrorCode::unsupported,
              "bench forward runs on a CUDA device and this tool was built without CUDA: "
              "configure with the preset cuda, which needs nvcc 13");
}

}  // namespace tilefold::bench
