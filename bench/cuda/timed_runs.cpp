#include <algorithm>
#include <cmath>

#include "bench/cuda/ladder_bench.hpp"

namespace tilefold::bench {

int timed_runs(double milliseconds, int most) {
  constexpr double enough = 150, at_most = 300;  // of timed launches together
  const double one = std::max(milliseconds, 1e-3);
  const int wanted = std::max(3, int(enough / one)), bearable = std::max(1, int(at_most / one));
  return std::clamp(std::min(wanted, bearable), 1, most);
}

}  // namespace tilefold::bench
