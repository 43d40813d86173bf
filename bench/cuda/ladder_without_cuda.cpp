// The ladder in a build that has no CUDA: it says so.
#include "bench/cuda/ladder_bench.hpp"
#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::unsupported,
              "the ladder runs on a CUDA device and this tool was built without CUDA: "
              "configure with the preset cuda, which needs nvcc 13");
}

}  // namespace

LadderReport measure_ladder(const LadderOptions&, const LadderProgress&, const LadderSink&) {
  refuse();
}
std::string ladder_device() { refuse(); }
std::vector<std::string> rung_names(const LadderOptions&) { refuse(); }
void launch_each_rung(const LadderOptions&) { refuse(); }

}  // namespace tilefold::bench
