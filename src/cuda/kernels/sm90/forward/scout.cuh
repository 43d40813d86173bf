// The scout: one warp that runs ahead of all others. It takes the next item of work, finds out
// which key tiles its rows see and which keys each row sees, and writes that where loader and
// consumers read it.
#pragma once

#include "cuda/kernels/sm90/forward/survey.cuh"

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
    post_route();
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
  /// Loads may begin.
  __device__ __forceinline__ void post_route() const {
    ptx::mbarrier_arrive(plan_.routes().full(at_));  // each lane for what it wrote
  }
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
    if constexpr (config.formula == Formula::range) post_route();
    if (lane_ == 0) find_values(a);
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
    KeyRange wanted{a.work.first_key, a.work.last_key};  // compiled masks tell themselves
    if constexpr (config.formula != Formula::compiled) wanted = keys_of(p, a.sequence, a.work);
    a.first_tile = wanted.begin / keys;
    a.last_tile = score::larger((wanted.end + keys - 1) / keys, a.first_tile + 1);
    a.key_head = p.pack == p.group ? a.work.kv_head : a.work.kv_head / p.group;
    a.continues = 0;
  }
  __device__ __forceinline__ void find_values(Assignment& a) const {
    KeyRange values{0, a.sequence.key_length};
    if constexpr (config.formula != Formula::compiled)
      values = keys_of_sequence(params_.problem, a.sequence);
    // Rows beyond a dense tensor's end are zeros already.
    if (a.sequence.key_length == params_.key_rows && values.end == a.sequence.key_length)
      values.end = end_of_all;
    if (a.sequence.broken) values = {0, 0};
    a.values = values;
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

  /// Key tiles in chunks, from the last on, of formulas that the range does not tell of. The next
  /// is looked for before one is sent, so that consumers know whether there is more. A query tile
  /// that sees nothing is sent all the same, with one key tile, hidden from every row.
  __device__ __forceinline__ void post_in_chunks() {
    const int first = slot().assignment.first_tile;
    Chunk now{};
    now.begin = slot().assignment.last_tile;
    bool continues = false;
#pragma unroll 1
    for (;;) {
      Assignment& a = slot().assignment;
      Chunk after = Survey<Chosen>(params_, a).find(first, now.begin);
      if (now.live != 0) {
        describe(now, continues, after.live != 0);
        fill_rows();
        post_route();
        post();
        if (after.live == 0) return;
        continues = true;
        open();
        copy(slot().assignment, a);  // nobody else writes slots: the one posted still holds it
      } else if (after.live == 0) {
        after = {first, first + 1, 1u, 1u, 0, 0u, 0u};
      }
      now = after;
    }
  }
  __device__ __forceinline__ void describe(const Chunk& c, bool continues, bool more) const {
    Assignment& a = slot().assignment;
    __syncwarp();  // all have read what is written now
    if (lane_ == 0) {
      a.first_tile = c.begin, a.last_tile = c.last;
      a.live = c.live, a.partial = c.partial;
      a.continues = continues, a.more = more;
      if (config.formula == Formula::compiled)
        a.values.begin = score::larger(a.values.begin, c.first_key);
    }
    if (config.formula == Formula::compiled && config.passes_by() && lane_ < config.consumers)
      slot().tiles[lane_] = own_tiles(c.live, c.seen, c.whole, continues, more);
    __syncwarp();
  }

  __device__ __forceinline__ bool exact_weights(const Assignment& a, int warpgroup) const {
    if (config.plain) return false;
    const ForwardParams& p = params_.problem;
    if constexpr (config.formula != Formula::compiled)
      return splits_weights(p, a.sequence, rows_of<Chosen>(a.work, warpgroup));
    return 1LL * a.sequence.query_length * p.value_dim < p.exact_below.outputs ||
           a.sequence.key_length < p.exact_below.keys;
  }

  /// The keys that each row sees, and those that all rows of a warpgroup see. A compiled mask tells
  /// itself which of the work's keys those are.
  __device__ __forceinline__ void fill_rows() const {
    Slot<Chosen>& to = slot();
    const Assignment& a = to.assignment;
    constexpr bool compiled = config.formula == Formula::compiled;
    if (lane_ < config.consumers) {
      to.splits_weights[lane_] = exact_weights(a, lane_);
      KeyRange all{a.work.first_key, a.work.last_key};
      if constexpr (!compiled)
        all = keys_of_all(params_.problem, a.sequence, rows_of<Chosen>(a.work, lane_));
      // No tile is whole: then each is cut at both ends.
      if (all.begin == all.end || a.sequence.broken || to.splits_weights[lane_])
        all = {a.work.last_key, a.work.first_key};
      to.all[lane_] = all;
    }
    if constexpr (compiled) return;
    if constexpr (config.passes_by() && !compiled) {
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
  /// One tile where a warpgroup's rows see none.
  __device__ __forceinline__ OwnKeys own_keys(const Assignment& a, int warpgroup) const {
    if (!has_rows<Chosen>(a.work, warpgroup)) return {a.first_tile, a.first_tile, 0};
    const KeyRange wanted =
        keys_of(params_.problem, a.sequence, rows_of<Chosen>(a.work, warpgroup));
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
