// Wall time and medians of it.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace tilefold::bench {

/// Seconds that a call takes.
template <class F> double seconds_of(const F& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The upper median; 0 of nothing.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tilefold::bench
