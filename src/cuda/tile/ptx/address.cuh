// Addresses as instructions on shared memory take them (PTX ISA, cvta).
#pragma once

namespace tilefold::cuda::ptx {

/// A generic pointer into shared memory as a 32-bit shared-memory address.
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// The same number, new to the compiler each time: what is derived from it is not computed ahead of
/// a loop and kept. A move to the assembler, which still sees that the whole warp agrees on it.
__device__ __forceinline__ unsigned address_again(unsigned address) {
  unsigned again;
  asm volatile("mov.u32 %0, %1;" : "=r"(again) : "r"(address));
  return again;
}

}  // namespace tilefold::cuda::ptx
