// A small generator of random numbers whose draws are the same with every compiler and library.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace tilefold::testing {

/// splitmix64: one 64-bit state, every seed is a good one.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double uniform() { return double(bits() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// From low to high, both included.
  int between(int low, int high) {
    return int(low + std::int64_t(bits() % std::uint64_t(std::int64_t(high) - low + 1)));
  }
  bool chance(double probability) { return uniform() < probability; }
  template <class T> T one_of(std::initializer_list<T> choices) {
    return choices.begin()[between(0, int(choices.size()) - 1)];
  }
  /// Mean 0, variance 1 (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace tilefold::testing
