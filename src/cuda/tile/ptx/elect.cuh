// elect.sync: one lane of a converged warp (PTX ISA, parallel synchronization). sm_90.
#pragma once

namespace tilefold::cuda::ptx {

/// True for one lane, the same each time, of a warp whose 32 lanes are all here.
__device__ __forceinline__ bool elect_one() {
  unsigned elected;
  asm volatile(
      "{\n.reg .pred chosen;\n"
      "elect.sync _|chosen, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, chosen;\n}"
      : "=r"(elected));
  return elected != 0;
}

}  // namespace tilefold::cuda::ptx
