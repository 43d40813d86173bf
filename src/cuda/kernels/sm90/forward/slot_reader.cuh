// What loader and consumers read: slots, in the order in which the scout fills them.
#pragma once

#include "cuda/kernels/sm90/forward/shared_plan.cuh"

namespace tilefold::cuda::sm90 {

template <class Chosen> class SlotReader {
 public:
  explicit __device__ __forceinline__ SlotReader(const SharedPlan<Chosen>& plan) : plan_(plan) {}

  /// The next slot, when its work, sequence and key tiles are there; without rows, where there is
  /// no more work.
  __device__ __forceinline__ const Slot<Chosen>& take() {
    plan_.routes().wait_full(taken_);
    const Slot<Chosen>& slot = plan_.slot(taken_.stage);
    taken_.advance();
    return slot;
  }
  /// Until all of the slot that was taken last is there.
  __device__ __forceinline__ void wait_for_rest() const {
    plan_.assignments().wait_full(taken_.before());
  }
  /// The slot that was taken first of those not yet released; `arrives` is one thread of a warp.
  __device__ __forceinline__ void release(bool arrives) {
    if (arrives) plan_.assignments().release(released_);
    released_.advance();
  }

 private:
  const SharedPlan<Chosen>& plan_;
  RingPosition<SharedPlan<Chosen>::slots> taken_, released_;
};

}  // namespace tilefold::cuda::sm90
