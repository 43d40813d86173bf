// Blocks of a kernel on the CPU: a thread of the host for each thread of the block, barriers for
// barriers. A kernel that uses only __syncthreads, __syncwarp and __shfl_xor_sync runs as it is
// written, so its indices, tails and masks are tested where there is no GPU, and a sanitizer of
// threads sees a missing barrier. Include it before the kernels.
#pragma once

#include <barrier>
#include <bit>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

// The kernels' own words have no function's shape: they must be macros here.
#define __global__
#define __device__
#define __shared__
#define __launch_bounds__(...)

struct BlockIndex {
  unsigned x;
};
inline thread_local BlockIndex threadIdx{}, blockIdx{};
using std::fmaxf;
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }

namespace tilefold::testing {

/// The barriers of the block that runs, and what its lanes show each other.
struct RunningBlock {
  explicit RunningBlock(int threads) : whole(threads), lanes(std::size_t(threads)) {
    for (int warp = 0; warp < threads / 32; ++warp)
      warps.push_back(std::make_unique<std::barrier<>>(32));
  }
  std::barrier<> whole;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<float> lanes;
};
inline RunningBlock* running_block = nullptr;

/// Runs `kernel` for every thread of every block, one block after the other.
inline void run_blocks(int blocks, int threads, const std::function<void()>& kernel) {
  RunningBlock block(threads);
  running_block = &block;
  std::vector<std::jthread> all;
  for (int thread = 0; thread < threads; ++thread)
    all.emplace_back([&block, &kernel, blocks, thread] {
      threadIdx.x = unsigned(thread);
      for (int index = 0; index < blocks; ++index) {
        blockIdx.x = unsigned(index);
        kernel();
        block.whole.arrive_and_wait();
      }
    });
}

}  // namespace tilefold::testing

inline void __syncthreads() { tilefold::testing::running_block->whole.arrive_and_wait(); }
inline void __syncwarp() {
  tilefold::testing::running_block->warps[threadIdx.x / 32]->arrive_and_wait();
}
inline float __shfl_xor_sync(unsigned, float value, int distance) {
  std::vector<float>& lanes = tilefold::testing::running_block->lanes;
  lanes[threadIdx.x] = value;
  __syncwarp();
  const float other = lanes[threadIdx.x ^ unsigned(distance)];
  __syncwarp();  // nobody writes the next value before all have read this one
  return other;
}
