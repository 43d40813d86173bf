// cp.async.bulk.tensor: the tensor memory accelerator copies one box of a tensor between global and
// shared memory (PTX ISA, asynchronous tensor copies). One thread asks; sm_90.
//
// `map` is the address of a TensorMap, 64-byte aligned, a __grid_constant__ kernel parameter or
// global memory. Coordinates are in elements, x first (the contiguous axis), and may be negative or
// past the end: such elements read as zeros and are not written. A load counts the whole box's
// bytes at `barrier`, those zeros included. Shared addresses are multiples of 128, of 1024 where
// the map swizzles by 128 bytes.
#pragma once

#include "cuda/tile/ptx/createpolicy.cuh"
#include "cuda/tile/tensor_map.cuh"

namespace tilefold::cuda::ptx {

/// Brings the descriptor near; worth while once a block.
__device__ __forceinline__ void prefetch_tensormap(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Starts the copy of the box at `start`, 3 to 5 coordinates, to shared memory; `barrier` is an
/// mbarrier that expects its bytes: load_box(tile, &map, barrier, {0, row, 0, head, batch},
/// l2_evict_last()).
template <int rank>
__device__ __forceinline__ void load_box(unsigned shared, const TensorMap* map, unsigned barrier,
                                         const int (&start)[rank], unsigned long long l2_policy) {
  static_assert(rank >= 3 && rank <= 5);
  if constexpr (rank == 3)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared),
        "l"(map), "r"(start[0]), "r"(start[1]), "r"(start[2]), "r"(barrier), "l"(l2_policy)
        : "memory");
  else if constexpr (rank == 4)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(shared),
        "l"(map), "r"(start[0]), "r"(start[1]), "r"(start[2]), "r"(start[3]), "r"(barrier),
        "l"(l2_policy)
        : "memory");
  else if constexpr (rank == 5)
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(shared),
        "l"(map), "r"(start[0]), "r"(start[1]), "r"(start[2]), "r"(start[3]), "r"(start[4]),
        "r"(barrier), "l"(l2_policy)
        : "memory");
}

/// Starts the copy of a box from shared memory to `start`. Ordinary stores to it need
/// fence_proxy_async_shared() and a barrier before.
template <int rank> __device__ __forceinline__ void store_box(const TensorMap* map,
                                                              const int (&start)[rank],
                                                              unsigned shared) {
  static_assert(rank >= 3 && rank <= 5);
  if constexpr (rank == 3)
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::
            "l"(map),
        "r"(start[0]), "r"(start[1]), "r"(start[2]), "r"(shared)
        : "memory");
  else if constexpr (rank == 4)
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], "
        "[%5];" ::"l"(map),
        "r"(start[0]), "r"(start[1]), "r"(start[2]), "r"(start[3]), "r"(shared)
        : "memory");
  else if constexpr (rank == 5)
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4, %5}], "
        "[%6];" ::"l"(map),
        "r"(start[0]), "r"(start[1]), "r"(start[2]), "r"(start[3]), "r"(start[4]), "r"(shared)
        : "memory");
}

/// Closes the group of this thread's stores since the last commit.
__device__ __forceinline__ void cp_async_bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until at most `pending` of this thread's newest groups still read shared memory: it may be
/// written again.
template <int pending> __device__ __forceinline__ void cp_async_bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
/// Waits until at most `pending` of them are unfinished: what they wrote is in global memory.
template <int pending> __device__ __forceinline__ void cp_async_bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace tilefold::cuda::ptx
