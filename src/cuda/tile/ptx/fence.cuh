// Fences between the generic proxy (ordinary loads and stores) and the async proxy (TMA, wgmma),
// PTX ISA, membar and fence. sm_90.
#pragma once

namespace tilefold::cuda::ptx {

/// After mbarrier_init, by the thread that did it, before the block synchronises: the barriers
/// exist for the async proxy too.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// After ordinary stores to shared memory that a TMA store or a wgmma will read, by every thread
/// that stored, before the barrier that tells of them. What TMA wrote and an mbarrier announced
/// needs none.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// The same for all memory: global bytes that ordinary stores wrote and this kernel's own TMA
/// reads.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

}  // namespace tilefold::cuda::ptx
