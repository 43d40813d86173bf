// Built-in score changes on one tile of scores [key][lane], with vector code.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tilefold::cpu {

/// A signed integer as wide as F.
template <class F> using LaneInt = std::conditional_t<sizeof(F) == 4, std::int32_t, std::int64_t>;

/// scores[i] = cap * tanh(scores[i] / cap) for i in [0, count), count a multiple of the lanes.
void soft_cap(float* scores, int count, double cap);
void soft_cap(double* scores, int count, double cap);

/// Distances k - (q + offset) of a tile's lanes: `first` holds each lane's at the tile's first key,
/// `step` is added a key. Slopes of lanes without a row are 0.
template <class F> struct LinearBias {
  const F* slope;           // [lanes]
  const LaneInt<F>* first;  // [lanes]
  int step;
};
/// scores[key][lane] += slope[lane] * distance(key, lane).
void add_linear_bias(float* scores, int keys, int lanes, const LinearBias<float>& bias);
void add_linear_bias(double* scores, int keys, int lanes, const LinearBias<double>& bias);

}  // namespace tilefold::cpu
