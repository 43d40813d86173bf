// barrier.cta: the 16 hardware barriers of a block, by number (PTX ISA, bar and barrier). Number 0
// is __syncthreads().
#pragma once

namespace tilefold::cuda::ptx {

/// Waits until `threads` threads, whole warps, have come to barrier `id`; sync and arrive both
/// count.
__device__ __forceinline__ void barrier_sync(int id, int threads) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Comes to barrier `id` and goes on.
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
  asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace tilefold::cuda::ptx
