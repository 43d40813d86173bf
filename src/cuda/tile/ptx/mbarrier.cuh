// mbarrier: a barrier in shared memory that counts arrivals and, for copies of the async proxy,
// bytes (PTX ISA, parallel synchronization). sm_90.
//
// A phase ends when every expected thread has arrived and every expected byte has come. A barrier
// starts in phase 0; waiting for a parity returns once the phase of that parity is over. So who
// waits for a first filling waits for parity 0, and who waits for a buffer that starts free waits
// for parity 1, which is over before anything happened. `barrier` is the shared-memory address of 8
// bytes, 8-byte aligned.
#pragma once

namespace tilefold::cuda::ptx {

constexpr int mbarrier_bytes = 8;

/// One thread does this, then fence_mbarrier_init(), then the block synchronises.
__device__ __forceinline__ void mbarrier_init(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// The 8 bytes may serve another purpose afterwards.
__device__ __forceinline__ void mbarrier_inval(unsigned barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
/// One arrival; what this thread did before is seen by who waits.
__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// One arrival, and the phase also waits for `bytes` more: said before the copies are started.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// The bytes alone, for a second copy under an arrival that another call makes.
__device__ __forceinline__ void mbarrier_expect_tx(unsigned barrier, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Sleeps for a while that the hardware chooses; true where the phase of this parity is over.
__device__ __forceinline__ bool mbarrier_try_wait_parity(unsigned barrier, unsigned parity) {
  unsigned over;
  asm volatile(
      "{\n.reg .pred over;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
      "selp.u32 %0, 1, 0, over;\n}"
      : "=r"(over)
      : "r"(barrier), "r"(parity)
      : "memory");
  return over != 0;
}
/// The same without sleeping.
__device__ __forceinline__ bool mbarrier_test_wait_parity(unsigned barrier, unsigned parity) {
  unsigned over;
  asm volatile(
      "{\n.reg .pred over;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 over, [%1], %2;\n"
      "selp.u32 %0, 1, 0, over;\n}"
      : "=r"(over)
      : "r"(barrier), "r"(parity)
      : "memory");
  return over != 0;
}
/// Returns when the phase of this parity is over.
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity) {
  while (!mbarrier_try_wait_parity(barrier, parity)) {
  }
}

}  // namespace tilefold::cuda::ptx
