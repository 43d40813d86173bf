// Approximate functions of the special-function unit (PTX ISA, floating-point instructions).
// Subnormal inputs and results are 0.
#pragma once

namespace tilefold::cuda::ptx {

/// 1 / x, to 1 unit in the last place.
__device__ __forceinline__ float reciprocal(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}
/// log2(x), to 2^-22 where x lies in [0.5, 2], to 1 unit in the last place elsewhere; log2(0) is
/// -inf.
__device__ __forceinline__ float log2(float x) {
  float logarithm;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(logarithm) : "f"(x));
  return logarithm;
}

}  // namespace tilefold::cuda::ptx
