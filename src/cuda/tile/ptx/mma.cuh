// mma.sync: one warp's 16 x 8 x 16 matrix product in 16-bit inputs and float32 sums (PTX
// ISA 9.7.14).
#pragma once

#include "cuda/tile/half_type.hpp"

namespace tilefold::cuda::ptx {

/// sum += a * b. a: 16 x 16, b: 16 x 8, sum: 16 x 8; who holds what: tile/fragment.cuh.
template <HalfType type> __device__ __forceinline__ void mma_16x8x16(float (&sum)[4],
                                                                     const unsigned (&a)[4],
                                                                     unsigned b0, unsigned b1) {
  if constexpr (type == HalfType::bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Two float32 as a pair of 16-bit numbers, `low` in the lower half: rounded to nearest, ties to
/// even.
template <HalfType type> __device__ __forceinline__ unsigned pack(float low, float high) {
  unsigned pair;
  if constexpr (type == HalfType::bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// A pair of 16-bit numbers as float32, exactly.
struct FloatPair {
  float low, high;
};
template <HalfType type> __device__ __forceinline__ FloatPair unpack(unsigned pair) {
  FloatPair wide;
  if constexpr (type == HalfType::bf16) {
    wide.low = __uint_as_float(pair << 16);
    wide.high = __uint_as_float(pair & 0xffff0000u);
  } else {
    asm("{ .reg .f16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; "
        "cvt.f32.f16 %1, high; }"
        : "=f"(wide.low), "=f"(wide.high)
        : "r"(pair));
  }
  return wide;
}

/// 2^x, to 2 units in the last place; -inf gives 0, NaN stays. Subnormal results are 0.
__device__ __forceinline__ float exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

}  // namespace tilefold::cuda::ptx
