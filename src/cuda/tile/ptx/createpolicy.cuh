// createpolicy: what the L2 keeps of a copy's bytes (PTX ISA, data movement).
#pragma once

namespace tilefold::cuda::ptx {

/// For bytes that nobody reads again, such as a query tile: evicted before others.
__device__ __forceinline__ unsigned long long l2_evict_first() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
/// For bytes that other blocks read soon, such as keys and values: evicted after others.
__device__ __forceinline__ unsigned long long l2_evict_last() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

}  // namespace tilefold::cuda::ptx
