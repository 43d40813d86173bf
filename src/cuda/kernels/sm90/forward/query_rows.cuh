// Q of query tiles whose rows belong to several heads: two warps copy it row by row, 16 bytes a
// lane and copy, into the place and the swizzle that TMA would have used.
#pragma once

#include "cuda/kernels/sm90/forward/slot_reader.cuh"
#include "cuda/tile/matrix_descriptor.cuh"
#include "cuda/tile/ptx/address.cuh"
#include "cuda/tile/ptx/cp_async.cuh"
#include "cuda/tile/ptx/fence.cuh"

namespace tilefold::cuda::sm90 {

template <class Chosen> class QueryRows {
 public:
  static constexpr ForwardConfig config = Chosen::value;

  /// `warp`: 0 or 1, of the two.
  __device__ __forceinline__ QueryRows(const KernelParams& params, const SharedPlan<Chosen>& plan,
                                       int warp)
      : params_(params.problem), plan_(plan), warp_(warp), lane_(int(threadIdx.x % 32)) {}

  __device__ __forceinline__ void run() {
    SlotReader<Chosen> slots(plan_);
    RingPosition<config.query_stages> query_at;
    for (;;) {
      const Assignment& a = slots.take().assignment;
      if (a.work.rows == 0) break;
      if (config.formula == Formula::range || !a.continues) {
        copy_all(a, query_at);
        query_at.advance();
      }
      __syncwarp();
      slots.release(lane_ == 0);
    }
  }

 private:
  __device__ __forceinline__ void copy_all(const Assignment& a,
                                           const RingPosition<config.query_stages>& at) const {
#pragma unroll 1
    for (int w = 0; w < config.consumers; ++w) {
      plan_.queries(w).wait_empty(at);
      copy(a, w * config.warpgroup_rows, plan_.query(at.stage, w));
    }
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    ptx::fence_proxy_async_shared();
    __syncwarp();
    if (lane_ < config.consumers) ptx::mbarrier_arrive(plan_.queries(lane_).full(at));
  }

  /// This warp's half of a warpgroup's rows. Rows that only fill the tile, and columns past the
  /// head's, become zeros.
  __device__ __forceinline__ void copy(const Assignment& a, int first_row, unsigned tile) const {
    constexpr int chunks = 8 * config.key_groups(), rows = config.warpgroup_rows;
#pragma unroll 1
    for (int i = warp_ * 32 + lane_; i < rows * chunks; i += 64) {
      const int row = i / chunks, column = i % chunks * 8;
      const bool inside = first_row + row < a.work.rows && column < params_.head_dim;
      const unsigned short* from = static_cast<const unsigned short*>(params_.query.data);
      if (inside) from += offset(a, first_row + row) + column;
      ptx::cp_async_16(tile + unsigned(swizzled_byte(row, column, rows)), from, inside ? 16 : 0);
    }
  }
  __device__ __forceinline__ long long offset(const Assignment& a, int in_tile) const {
    const QueryPlace place =
        query_of(params_, a.sequence, a.work.kv_head, a.work.first_row + in_tile);
    return query_place(a.sequence, a.work.sequence, place.query)
        .offset(params_.query.strides, place.head);
  }

  const ForwardParams& params_;
  const SharedPlan<Chosen>& plan_;
  int warp_, lane_;
};

}  // namespace tilefold::cuda::sm90
