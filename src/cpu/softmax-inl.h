// The online softmax of one tile, for every Highway target. Included once per target, by the
// Highway kernels and by the bf16 kernels alike.
//
//   Absorb(d, scores, keys, lanes, value_dim, state,
//          [&](int key, int lane, auto w) { hn::Store(w, d, weights + key * lanes + lane); });
#if defined(TILEFOLD_CPU_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEFOLD_CPU_SOFTMAX_INL_H
#undef TILEFOLD_CPU_SOFTMAX_INL_H
#else
#define TILEFOLD_CPU_SOFTMAX_INL_H
#endif

#include <hwy/highway.h>

#include <limits>

#include "cpu/exponential-inl.h"
#include "cpu/tile_kernel.hpp"

HWY_BEFORE_NAMESPACE();
namespace tilefold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Largest of the lanes' scores over all keys, and of `start`. Four chains hide the latency of Max.
template <class D, class F = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> MaxOverKeys(D d, const F* scores, int keys, int lanes, hn::Vec<D> start) {
  auto a = start, b = start, c = start, e = start;
  int key = 0;
  for (; key + 4 <= keys; key += 4, scores += 4 * std::ptrdiff_t(lanes)) {
    a = hn::Max(a, hn::Load(d, scores));
    b = hn::Max(b, hn::Load(d, scores + lanes));
    c = hn::Max(c, hn::Load(d, scores + 2 * lanes));
    e = hn::Max(e, hn::Load(d, scores + 3 * lanes));
  }
  for (; key < keys; ++key, scores += lanes) a = hn::Max(a, hn::Load(d, scores));
  return hn::Max(hn::Max(a, b), hn::Max(c, e));
}

/// Multiplies the output columns of one vector of lanes by that vector's correction.
template <class D, class F = hn::TFromD<D>>
HWY_INLINE void RescaleOutput(D d, F* output, int columns, int lanes, hn::Vec<D> correction) {
  for (int column = 0; column < columns; ++column, output += lanes)
    hn::Store(hn::Mul(hn::Load(d, output), correction), d, output);
}

/// TileKernel::absorb for scores [keys][lanes]. store(key, lane, weights) receives each vector of
/// weights, lane being the first of its lanes; it may overwrite the scores it was made from.
template <class D, class Store, class F = hn::TFromD<D>>
HWY_INLINE void Absorb(D d, const F* scores, int keys, int lanes, int value_dim,
                       const RowState<F>& state, const Store& store) {
  const int step = int(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<F>::infinity());
  const auto zero = hn::Zero(d);
  for (int lane = 0; lane < lanes; lane += step) {
    const auto old_max = hn::Load(d, state.max + lane);
    auto max = MaxOverKeys(d, scores + lane, keys, lanes, old_max);
    // (-inf) - (-inf) is NaN in a row that has seen no key: shift such rows by 0.
    const auto shift = hn::IfThenElse(hn::Eq(max, lowest), zero, max);
    auto sum = zero;
    for (int key = 0; key < keys; ++key) {
      const auto weight = Exp(d, hn::Sub(hn::Load(d, scores + key * lanes + lane), shift));
      sum = hn::Add(sum, weight);
      store(key, lane, weight);
    }
    // Multiplying by exactly 1 changes no bit, so the vectors where no maximum rose skip it.
    if (!hn::AllTrue(d, hn::Eq(max, old_max))) {
      const auto correction = Exp(d, hn::Sub(old_max, shift));
      RescaleOutput(d, state.output + lane, value_dim, lanes, correction);
      sum = hn::MulAdd(hn::Load(d, state.sum + lane), correction, sum);
    } else {
      sum = hn::Add(hn::Load(d, state.sum + lane), sum);
    }
    // Max may drop a NaN; the sum never does, and a NaN row must not pass for an empty one.
    max = hn::IfThenElse(hn::Eq(sum, sum), max, sum);
    hn::Store(max, d, state.max + lane);
    hn::Store(sum, d, state.sum + lane);
  }
}

}  // namespace tilefold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
