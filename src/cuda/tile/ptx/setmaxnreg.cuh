// setmaxnreg: a warpgroup gives registers back or takes more (PTX ISA, miscellaneous). sm_90a.
//
// Counts are a thread's, multiples of 8 from 24 to 256. Over all warpgroups of the block they may
// sum to at most what the block was launched with, e.g. 3 x 168 or 4 x 128: one step more compiles
// and hangs (registers_fit). Every warp of a warpgroup executes it, first thing in its role's
// branch: ptxas takes the count as that branch's budget.
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::cuda::ptx {

#if defined(__CUDACC__) || defined(__device__)  // a device compiler, or a host that plays one
template <int count> __device__ __forceinline__ void setmaxnreg_inc() {
  static_assert(count % 8 == 0 && count >= 24 && count <= 256);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count> __device__ __forceinline__ void setmaxnreg_dec() {
  static_assert(count % 8 == 0 && count >= 24 && count <= 256);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
#endif

/// Registers a thread at the launch of a block of `warpgroups`, alone on its multiprocessor (65536
/// registers): what ptxas rounds down to a multiple of 8 under __launch_bounds__(128 * warpgroups,
/// 1).
TILEFOLD_HD constexpr int registers_at_launch(int warpgroups) {
  const int share = 65536 / (128 * warpgroups) / 8 * 8;
  return share < 256 ? share : 255;
}
/// Whether one producer warpgroup and `consumers` others may ask for these counts. 24 + 2 x 240 and
/// 40 + 2 x 232 fit 3 x 168 = 504; 32 + 2 x 240 = 512 does not, and hangs.
TILEFOLD_HD constexpr bool registers_fit(int producer, int consumer, int consumers) {
  return producer + consumers * consumer <= (consumers + 1) * registers_at_launch(consumers + 1);
}
static_assert(registers_at_launch(3) == 168 && registers_at_launch(4) == 128);
static_assert(registers_fit(24, 240, 2) && registers_fit(40, 232, 2) && registers_fit(32, 160, 3));
static_assert(!registers_fit(32, 240, 2) && !registers_fit(40, 160, 3));

}  // namespace tilefold::cuda::ptx
