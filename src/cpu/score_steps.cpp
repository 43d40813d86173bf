// Soft capping and linear position biases for every Highway target.
#include "cpu/score_steps.hpp"

#include "cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/score_steps.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/exponential-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilefold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class F> void SoftCap(F* scores, int count, double cap) {
  const hn::ScalableTag<F> d;
  const auto high = hn::Set(d, F(cap)), inverse = hn::Set(d, F(1 / cap));
  for (int i = 0; i < count; i += int(hn::Lanes(d)))
    hn::Store(hn::Mul(high, Tanh(d, hn::Mul(hn::Load(d, scores + i), inverse), F())), d,
              scores + i);
}

template <class F> void AddLinearBias(F* scores, int keys, int lanes, const LinearBias<F>& bias) {
  const hn::ScalableTag<F> d;
  const hn::RebindToSigned<decltype(d)> di;
  for (int lane = 0; lane < lanes; lane += int(hn::Lanes(d))) {
    const auto slope = hn::Load(d, bias.slope + lane);
    auto distance = hn::Load(di, bias.first + lane);
    const auto step = hn::Set(di, LaneInt<F>(bias.step));
    for (int key = 0; key < keys; ++key, distance = hn::Add(distance, step)) {
      F* at = scores + key * lanes + lane;
      hn::Store(hn::MulAdd(slope, hn::ConvertTo(d, distance), hn::Load(d, at)), d, at);
    }
  }
}

void SoftCapF32(float* scores, int count, double cap) { SoftCap(scores, count, cap); }
void SoftCapF64(double* scores, int count, double cap) { SoftCap(scores, count, cap); }
void LinearF32(float* scores, int keys, int lanes, const LinearBias<float>& bias) {
  AddLinearBias(scores, keys, lanes, bias);
}
void LinearF64(double* scores, int keys, int lanes, const LinearBias<double>& bias) {
  AddLinearBias(scores, keys, lanes, bias);
}

}  // namespace tilefold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilefold::cpu {

HWY_EXPORT(SoftCapF32);
HWY_EXPORT(SoftCapF64);
HWY_EXPORT(LinearF32);
HWY_EXPORT(LinearF64);

void soft_cap(float* scores, int count, double cap) {
  HWY_DYNAMIC_DISPATCH(SoftCapF32)(scores, count, cap);
}
void soft_cap(double* scores, int count, double cap) {
  HWY_DYNAMIC_DISPATCH(SoftCapF64)(scores, count, cap);
}
void add_linear_bias(float* scores, int keys, int lanes, const LinearBias<float>& bias) {
  HWY_DYNAMIC_DISPATCH(LinearF32)(scores, keys, lanes, bias);
}
void add_linear_bias(double* scores, int keys, int lanes, const LinearBias<double>& bias) {
  HWY_DYNAMIC_DISPATCH(LinearF64)(scores, keys, lanes, bias);
}

}  // namespace tilefold::cpu
#endif
