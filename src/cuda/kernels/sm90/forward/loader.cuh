// The loader: one thread that has TMA bring Q, K and V in the order in which the consumers need
// them: K runs one tile ahead of V.
#pragma once

#include "cuda/kernels/sm90/forward/slot_reader.cuh"
#include "cuda/tile/ptx/cp_async_bulk_tensor.cuh"
#include "cuda/tile/ptx/createpolicy.cuh"

namespace tilefold::cuda::sm90 {

template <class Chosen> class Loader {
 public:
  static constexpr ForwardConfig config = Chosen::value;

  __device__ __forceinline__ Loader(const KernelParams& params, const SharedPlan<Chosen>& plan)
      : params_(params), plan_(plan) {}

  __device__ __forceinline__ void run() {
    SlotReader<Chosen> slots(plan_);
    for (;;) {
      const Slot<Chosen>& slot = slots.take();
      if (slot.assignment.work.rows == 0) break;
      load_tiles(slot.assignment);
      slots.release(true);
    }
  }

 private:
  __device__ __forceinline__ void load_tiles(const Assignment& a) {
    int before = -1;  // the tile whose V has not been asked for
    if constexpr (config.formula == Formula::range) {
#pragma unroll 1
      for (int tile = a.last_tile - 1; tile >= a.first_tile; --tile) load_tile(a, tile, before);
    } else {
#pragma unroll 1
      for (unsigned live = a.live; live != 0; live &= live - 1)
        load_tile(a, a.last_tile - __ffs(int(live)), before);
    }
    load_value(a, before);
  }

  __device__ __forceinline__ void load_tile(const Assignment& a, int tile, int& before) {
    load(params_.key, plan_.keys(), key_at_, {plan_.key(key_at_.stage), config.key_bytes()}, a,
         tile);
    key_at_.advance();
    if (before >= 0)
      load_value(a, before);
    else if (params_.query_path == QueryPath::box && !continues(a))
      load_query(a);
    before = tile;
  }
  __device__ __forceinline__ void load_value(const Assignment& a, int tile) {
    load(params_.value, plan_.values(), value_at_,
         {plan_.value(value_at_.stage), config.value_bytes()}, a, tile);
    value_at_.advance();
  }
  static __device__ __forceinline__ bool continues(const Assignment& a) {
    return config.formula != Formula::range && a.continues;
  }

  struct Place {
    unsigned shared;
    int bytes;
  };
  /// All groups of columns of one tile of K or V. Where the sequence lies is read again each time:
  /// this role has few registers.
  __device__ __forceinline__ void load(const TensorMap& map,
                                       const typename SharedPlan<Chosen>::TileRing& ring,
                                       const RingPosition<config.stages>& at, Place to,
                                       const Assignment& a, int tile) const {
    ring.wait_empty(at);
    ring.expect(at, to.bytes);
    const bool dense = params_.key_rows != 0;
    const int row = (dense ? 0 : int(a.sequence.key_begin)) + tile * config.tile_keys;
    constexpr int group_bytes = 128 * config.tile_keys;
#pragma unroll 1
    for (int column = 0; 2 * column * config.tile_keys < to.bytes; column += 64)
      ptx::load_box<4>(to.shared + column / 64 * group_bytes, &map, ring.full(at),
                       {column, row, a.key_head, dense ? a.work.sequence : 0},
                       ptx::l2_evict_last());
  }

  __device__ __forceinline__ void load_query(const Assignment& a) {
    const int row = int(a.sequence.query_begin + a.work.first_row);
    const unsigned long long policy = ptx::l2_evict_first();
    constexpr int group_bytes = 128 * config.warpgroup_rows;
#pragma unroll 1
    for (int w = 0; w < config.consumers; ++w) {
      const auto ring = plan_.queries(w);
      ring.wait_empty(query_at_);
      ring.expect(query_at_, config.query_bytes());
#pragma unroll 1
      for (int group = 0; group < config.key_groups(); ++group)
        ptx::load_box<4>(plan_.query(query_at_.stage, w) + group * group_bytes, &params_.query,
                         ring.full(query_at_),
                         {64 * group, row + w * config.warpgroup_rows, a.work.kv_head,
                          params_.query_rows != 0 ? a.work.sequence : 0},
                         policy);
    }
    query_at_.advance();
  }

  const KernelParams& params_;
  const SharedPlan<Chosen>& plan_;
  RingPosition<config.stages> key_at_, value_at_;
  RingPosition<config.query_stages> query_at_;
};

}  // namespace tilefold::cuda::sm90
