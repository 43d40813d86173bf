// A ring of shared-memory buffers between one producer and its consumers: stage and phase in one
// type, so that nobody flips a phase by hand.
//
//   producer                               consumer
//     ring.wait_empty(at);                   ring.wait_full(at);
//     ring.expect(at, bytes);                ... read stage `at.stage` ...
//     load_box(..., ring.full(at), ...);     if (lane == 0) ring.release(at);
//     at.advance();                          at.advance();
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::cuda {

/// Where a role stands: the buffer, and the parity of its use of it. Both roles start at {0, 0}.
template <int stages> struct RingPosition {
  static_assert(stages >= 1);
  unsigned stage = 0, phase = 0;

  /// The next buffer; the phase turns with each round. Without a branch for 1 and 2 stages.
  TILEFOLD_HD constexpr void advance() {
    if constexpr (stages == 1) {
      phase ^= 1u;
    } else if constexpr (stages == 2) {
      stage ^= 1u;
      phase ^= stage ^ 1u;
    } else if (++stage == unsigned(stages)) {
      stage = 0;
      phase ^= 1u;
    }
  }
  /// The position before this one. Of the very first position it is the last stage of a round that
  /// never was.
  TILEFOLD_HD constexpr RingPosition before() const {
    return stage == 0 ? RingPosition{unsigned(stages - 1), phase ^ 1u}
                      : RingPosition{stage - 1, phase};
  }
};

}  // namespace tilefold::cuda

#if defined(__CUDACC__) || defined(__device__)  // a device compiler, or a host that plays one
#include "cuda/tile/ptx/fence.cuh"
#include "cuda/tile/ptx/mbarrier.cuh"

namespace tilefold::cuda {

/// The barriers of a ring: a full one and an empty one a stage, at `barriers` in shared memory.
template <int stages> struct Ring {
  using Position = RingPosition<stages>;
  static constexpr int bytes = 2 * stages * ptx::mbarrier_bytes;

  unsigned barriers;  // shared-memory address of `bytes` bytes

  /// By one thread; ptx::fence_mbarrier_init() and a barrier of the block follow. `releases`:
  /// arrivals that empty a buffer; `fillers`: arrivals that fill it, beside the bytes of copies.
  __device__ __forceinline__ void init(int releases, int fillers = 1) const {
#pragma unroll
    for (int s = 0; s < stages; ++s) {
      ptx::mbarrier_init(barriers + ptx::mbarrier_bytes * s, fillers);
      ptx::mbarrier_init(barriers + ptx::mbarrier_bytes * (stages + s), releases);
    }
  }
  __device__ __forceinline__ unsigned full(const Position& at) const {
    return barriers + ptx::mbarrier_bytes * at.stage;
  }
  __device__ __forceinline__ unsigned empty(const Position& at) const {
    return barriers + ptx::mbarrier_bytes * (stages + at.stage);
  }

  /// The producer: until the consumers have let go of the buffer. It starts free.
  __device__ __forceinline__ void wait_empty(const Position& at) const {
    ptx::mbarrier_wait(empty(at), at.phase ^ 1u);
  }
  /// The producer: `bytes` of TMA copies to come, all that fill the buffer.
  __device__ __forceinline__ void expect(const Position& at, int bytes_to_come) const {
    ptx::mbarrier_arrive_expect_tx(full(at), bytes_to_come);
  }
  /// A consumer: until the buffer is filled.
  __device__ __forceinline__ void wait_full(const Position& at) const {
    ptx::mbarrier_wait(full(at), at.phase);
  }
  /// A consumer: one of the `releases` arrivals.
  __device__ __forceinline__ void release(const Position& at) const {
    ptx::mbarrier_arrive(empty(at));
  }
};

}  // namespace tilefold::cuda
#endif
