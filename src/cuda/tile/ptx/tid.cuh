// %tid.x, the thread's index in its block.
#pragma once

namespace tilefold::cuda::ptx {

/// This thread's index, new to the compiler each time: what is derived from it is computed again at
/// each tile, a dozen instructions, and not kept in registers that the products need.
__device__ __forceinline__ int thread_again() {
  int thread = int(threadIdx.x);
  asm volatile("" : "+r"(thread));
  return thread;
}

}  // namespace tilefold::cuda::ptx
