// The element types that kernels read and write, over PTX conversions: no header of a toolkit.
#pragma once

#include "cuda/tile/element_type.hpp"

namespace tilefold::cuda {

namespace element {

/// binary16 of any 16 bits, subnormals included.
__device__ __forceinline__ float widen_f16(unsigned short bits) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
  return wide;
}
__device__ __forceinline__ unsigned short narrow_f16(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ __forceinline__ unsigned short narrow_bf16(float x) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
TILEFOLD_HD constexpr float widen_bf16(unsigned short bits) {
  return __builtin_bit_cast(float, unsigned(bits) << 16);
}

/// e5m2 is the upper half of a binary16.
TILEFOLD_HD constexpr unsigned short f16_of_e5m2(unsigned char bits) {
  return static_cast<unsigned short>(bits << 8);
}

/// Cards before 8.9 have no conversion of e4m3: the exponent moves from bias 7 to 127 by
/// arithmetic. A subnormal code is its mantissa times 2^-9; 0x7f and 0xff are NaN.
TILEFOLD_HD constexpr float widen_e4m3(unsigned char bits) {
  const unsigned sign = unsigned(bits & 0x80) << 24, magnitude = bits & 0x7fu;
  if (magnitude == 0x7f) return __builtin_bit_cast(float, sign | 0x7fc00000u);
  if (magnitude < 8) {
    const float small = float(magnitude) * 0.001953125f;
    return sign ? -small : small;
  }
  return __builtin_bit_cast(float, sign | ((magnitude << 20) + (120u << 23)));
}

}  // namespace element

/// Element `index` of an array, widened exactly.
__device__ __forceinline__ float load_element(const void* data, ElementType type, long long index) {
  switch (type) {
    case ElementType::f32: return static_cast<const float*>(data)[index];
    case ElementType::f16:
      return element::widen_f16(static_cast<const unsigned short*>(data)[index]);
    case ElementType::bf16:
      return element::widen_bf16(static_cast<const unsigned short*>(data)[index]);
    case ElementType::e4m3:
      return element::widen_e4m3(static_cast<const unsigned char*>(data)[index]);
    default:
      return element::widen_f16(
          element::f16_of_e5m2(static_cast<const unsigned char*>(data)[index]));
  }
}

/// Rounds to nearest even; outputs are f32, f16 or bf16.
__device__ __forceinline__ void store_element(void* data, ElementType type, long long index,
                                              float x) {
  if (type == ElementType::f32)
    static_cast<float*>(data)[index] = x;
  else
    static_cast<unsigned short*>(data)[index] =
        type == ElementType::f16 ? element::narrow_f16(x) : element::narrow_bf16(x);
}

}  // namespace tilefold::cuda
