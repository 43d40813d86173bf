// The scout: one warp that runs ahead of all others. It takes the next item of work, finds out
// which key tiles its rows see and which keys each row sees, and writes that where loader and
// consumers read it.
#pragma once

#include "cuda/kernels/sm90/forward/shared_plan.cuh"

namespace tilefold::cuda::sm90 {

template <class Chosen> class Scout {
 public:
  static constexpr ForwardConfig config = Chosen::value;

  __device__ __forceinline__ Scout(const ParamsOf<Chosen>& params, const SharedPlan<Chosen>& plan)
      : params_(params), plan_(plan), lane_(int(threadIdx.x % 32)) {}

  /// An item is claimed when there is a slot for it, not earlier: what a block has claimed, no
  /// other can take when it runs out of work.
  __device__ __forceinline__ void run() {
    open();
    for (int item = int(blockIdx.x); item < params_.items; item = next(item)) {
      send(item);
      open();
    }
    if (lane_ == 0) slot().assignment.work.rows = 0;
    post();
    if (params_.turn == Turn::counted) leave();
  }

 private:
  __device__ __forceinline__ int next(int item) const {
    if (params_.turn == Turn::fixed) return item + int(gridDim.x);
    const int taken = lane_ == 0 ? int(gridDim.x + atomicAdd(params_.counters, 1u)) : 0;
    return __shfl_sync(0xffffffffu, taken, 0);
  }
  /// The last block to leave puts the counters back.
  __device__ __forceinline__ void leave() const {
    if (lane_ != 0) return;
    __threadfence();
    if (atomicAdd(params_.counters + 1, 1u) == gridDim.x - 1)
      params_.counters[0] = 0, params_.counters[1] = 0;
  }

  // ---- slots. What is found out is kept there and not in the few registers of this role.

  __device__ __forceinline__ Slot<Chosen>& slot() const { return plan_.slot(at_.stage); }
  __device__ __forceinline__ void open() const { plan_.assignments().wait_empty(at_); }
  __device__ __forceinline__ void post() {
    ptx::mbarrier_arrive(plan_.assignments().full(at_));  // each lane for what it wrote
    at_.advance();
  }

  __device__ __forceinline__ void send(int item) {
    Assignment& a = slot().assignment;
    if (lane_ == 0) a.work = work_of_item(params_, item);
    __syncwarp();
    if (a.work.rows == 0) return;  // the slot stays open
    copy(a.sequence, params_.problem.sequences[a.work.sequence]);
    if (lane_ == 0) find_tiles(a);
    __syncwarp();
    if (lane_ == 1 && params_.output_path != OutputPath::general) find_place(a);
    __syncwarp();
    if constexpr (config.formula == Formula::range) {
      fill_rows();
      post();
    } else {
      post_in_chunks();
    }
  }
  __device__ __forceinline__ void find_tiles(Assignment& a) const {
    constexpr int keys = config.tile_keys;
    const ForwardParams& p = params_.problem;
    const KeyRange wanted = keys_of(p, a.sequence, a.work);
    a.first_tile = wanted.begin / keys;
    a.last_tile = score::larger((wanted.end + keys - 1) / keys, a.first_tile + 1);
    KeyRange values = keys_of_sequence(p, a.sequence);
    // Rows beyond a dense tensor's end are zeros already.
    if (a.sequence.key_length == params_.key_rows && values.end == a.sequence.key_length)
      values.end = end_of_all;
    if (a.sequence.broken) values = {0, 0};
    a.values = values;
    a.continues = 0;
  }
  __device__ __forceinline__ void find_place(Assignment& a) const {
    const ForwardParams& p = params_.problem;
    const RowPlace row = query_place(a.sequence, a.work.sequence, int(a.work.first_row));
    a.place.row = int(row.row);
    a.place.head = a.work.kv_head;
    a.place.sequence = params_.query_rows != 0 ? a.work.sequence : 0;
    a.place.out_row = int(p.out_strides.row);
    a.place.lse_row = int(p.lse_strides.row);
    a.place.out = static_cast<unsigned short*>(p.out) + row.offset(p.out_strides, a.work.kv_head);
    a.place.lse = p.lse == nullptr ? nullptr : p.lse + row.offset(p.lse_strides, a.work.kv_head);
  }
  /// Word by word, a word a lane.
  template <class T> __device__ __forceinline__ void copy(T& to, const T& from) const {
    static_assert(sizeof(T) % 4 == 0);
    for (int i = lane_; i < int(sizeof(T) / 4); i += 32)
      reinterpret_cast<int*>(&to)[i] = reinterpret_cast<const int*>(&from)[i];
    __syncwarp();
  }

  /// 32 key tiles at a time, one a lane. Chunks without a visible tile are not sent, but a query
  /// tile is: with one key tile, hidden from every row.
  __device__ __forceinline__ void post_in_chunks() {
    const int first = slot().assignment.first_tile;
    int last = slot().assignment.last_tile, continues = 0;
    for (;;) {
      Assignment& a = slot().assignment;
      const int tile = last - 1 - lane_;
      const score::Truth answer = tile >= first ? ask(a, tile) : score::Truth(score::Truth::none);
      unsigned live = __ballot_sync(0xffffffffu, !answer.no());
      const unsigned partial = __ballot_sync(0xffffffffu, !answer.yes());
      const int begin = score::larger(first, last - 32);
      if (begin == first && !continues && live == 0) live = 1;
      if (live != 0) {
        __syncwarp();  // all have read what is written now
        if (lane_ == 0) {
          a.first_tile = begin, a.last_tile = last;
          a.live = live, a.partial = partial, a.continues = continues;
        }
        if constexpr (config.formula == Formula::compiled)
          bound_values(a, last - 32 + __clz(int(live)));
        fill_rows();
        post();
        continues = 1;
        if (begin == first) return;
        open();
        copy(slot().assignment, a);  // nobody else writes slots: the one posted still holds it
      }
      if (begin == first) return;
      last = begin;
    }
  }
  __device__ __forceinline__ score::Truth ask(const Assignment& a, int tile) const {
    const int first = score::larger(tile * config.tile_keys, a.work.first_key);
    const int last = score::smaller((tile + 1) * config.tile_keys, a.work.last_key);
    if (first >= last) return score::Truth::none;
    if constexpr (config.formula == Formula::compiled) {
      return mask_answer(a, queries_of(a.sequence, a.work), first, last);
    } else {
      return tile_answer(params_.problem, a.sequence, a.work, first, last);
    }
  }

  /// Keys before the first that the compiled mask may leave any query of the sequence: their V may
  /// be anything. Where the host does not know it, the lowest tile of those sent is asked key by
  /// key.
  __device__ __forceinline__ void bound_values(Assignment& a, int tile) const {
    int first = tile * config.tile_keys;
    if (params_.first_keys != nullptr) {
      first = params_.first_keys[a.work.sequence];
    } else {
      const QueryRange all{0, a.sequence.query_length - 1};
      for (const int end = first + config.tile_keys; first < end;) {
        const int key = first + lane_;
        const unsigned seen = __ballot_sync(0xffffffffu, !mask_answer(a, all, key, key + 1).no());
        first += seen == 0 ? 32 : __ffs(int(seen)) - 1;
        if (seen != 0) break;
      }
      if (first == tile * config.tile_keys) return;
    }
    if (lane_ == 0) a.values.begin = score::larger(a.values.begin, first);
    __syncwarp();
  }
  /// What the compiled mask says of the queries against keys [first, last).
  __device__ __forceinline__ score::Truth mask_answer(const Assignment& a, QueryRange queries,
                                                      int first, int last) const {
    const ForwardParams& p = params_.problem;
    return params_.formula.mask.keep(positions_between(query_position(p, a.sequence, queries.first),
                                                       query_position(p, a.sequence, queries.last)),
                                     positions_between(key_position(p, a.sequence, first),
                                                       key_position(p, a.sequence, last - 1)),
                                     place_of(p, a.sequence, a.work.sequence, a.work.kv_head));
  }

  /// The keys that each row sees, and those that all rows of a warpgroup see.
  __device__ __forceinline__ void fill_rows() const {
    Slot<Chosen>& to = slot();
    const Assignment& a = to.assignment;
    if (lane_ < config.consumers) {
      to.splits_weights[lane_] = splits_weights(params_.problem, a.sequence, rows_of(a, lane_));
      KeyRange all = keys_of_all(params_.problem, a.sequence, rows_of(a, lane_));
      // No tile is whole: then each is cut at both ends.
      if (all.begin == all.end || a.sequence.broken || to.splits_weights[lane_])
        all = {a.work.last_key, a.work.first_key};
      to.all[lane_] = all;
    }
    if constexpr (config.passes_by()) {
      __syncwarp();
      if (lane_ < config.consumers) to.own[lane_] = own_keys(a, lane_);
      __syncwarp();
    }
    if (params_.problem.pack == 1 && params_.problem.key_stride == 1)
      fill_consecutive(a);
    else
      fill([&](int r) {
        const ForwardParams& p = params_.problem;
        return open_range(p, a.sequence,
                          query_of(p, a.sequence, a.work.kv_head, a.work.first_row + r).query);
      });
  }
  /// A warpgroup's rows. One without any does as the last that has some: all must mend the same
  /// tiles of V.
  __device__ __forceinline__ ForwardWork rows_of(const Assignment& a, int warpgroup) const {
    const int with_rows = (a.work.rows - 1) / config.warpgroup_rows;
    const int first = score::smaller(warpgroup, with_rows) * config.warpgroup_rows;
    ForwardWork part = a.work;
    part.first_row += first;
    part.rows = score::smaller(a.work.rows - first, config.warpgroup_rows);
    return part;
  }
  /// One tile where a warpgroup's rows see none.
  __device__ __forceinline__ OwnKeys own_keys(const Assignment& a, int warpgroup) const {
    if (warpgroup * config.warpgroup_rows >= a.work.rows) return {a.first_tile, a.first_tile, 0};
    const KeyRange wanted = keys_of(params_.problem, a.sequence, rows_of(a, warpgroup));
    const OwnKeys own{
        score::larger(wanted.begin / config.tile_keys, a.first_tile),
        score::smaller((wanted.end + config.tile_keys - 1) / config.tile_keys, a.last_tile),
        wanted.end};
    return own.first < own.last ? own : OwnKeys{a.last_tile - 1, a.last_tile, end_of_all};
  }
  /// Rows that are consecutive queries of one head: their ranges move by the query stride.
  __device__ __forceinline__ void fill_consecutive(const Assignment& a) const {
    const OpenKeyRange first = open_range(params_.problem, a.sequence, int(a.work.first_row));
    const int step = params_.problem.query_stride;
    fill([&](int r) { return OpenKeyRange{first.begin + step * r, first.end + step * r}; });
  }
  template <class Range> __device__ __forceinline__ void fill(const Range& range) const {
    Slot<Chosen>& to = slot();
    const int rows = to.assignment.work.rows, first_key = to.assignment.work.first_key;
    const int last_key = to.assignment.work.last_key;
#pragma unroll 1
    for (int r = lane_; r < config.tile_rows(); r += 32) {
      RowKeys keys{0, end_of_all};  // a row that only fills the tile
      if (r < rows) {               // rows of a broken sequence see nothing
        const KeyRange bound = bounded(range(r), first_key, last_key);
        const bool any = bound.begin < bound.end && !to.assignment.sequence.broken;
        keys = any ? RowKeys{bound.begin, bound.end} : RowKeys{end_of_all, 0};
      }
      to.rows[r] = keys;
    }
  }

  const ParamsOf<Chosen>& params_;
  const SharedPlan<Chosen>& plan_;
  int lane_;
  RingPosition<SharedPlan<Chosen>::slots> at_;
};

}  // namespace tilefold::cuda::sm90
