// cp.async: 16 bytes a thread from global to shared memory, past the registers (PTX ISA 9.7.9.25).
#pragma once

namespace tilefold::cuda::ptx {

/// Copies the first `bytes` (0 to 16) of the 16 bytes at `source` and writes zeros for the rest;
/// with 0, nothing is read. Both addresses are multiples of 16.
__device__ __forceinline__ void cp_async_16(unsigned shared, const void* source, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(source),
               "r"(bytes)
               : "memory");
}
/// Closes the group of this thread's copies since the last commit. An empty group is legal.
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most `pending` of this thread's newest groups are unfinished. What they wrote is
/// seen by other threads after the next barrier.
template <int pending> __device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace tilefold::cuda::ptx
