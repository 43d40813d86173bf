// A consumer: one warpgroup that computes 64 query rows, from scores to output.
//
// Scores of a key tile are issued beside the output of the tile before, so that the tensor cores
// have work while the softmax runs; the warpgroups take turns in issuing, so that one's softmax
// runs under another's products. Keys are walked from the last tile to the first: under causal
// masks the tiles that need masking come first.
#pragma once

#include "cuda/kernels/sm90/forward/epilogue.cuh"
#include "cuda/kernels/sm90/forward/mask.cuh"
#include "cuda/kernels/sm90/forward/slot_reader.cuh"
#include "cuda/tile/ptx/address.cuh"
#include "cuda/tile/ptx/barrier.cuh"
#include "cuda/tile/ptx/wgmma.cuh"

namespace tilefold::cuda::sm90 {

/// Barriers of the block, by number; 0 is __syncthreads().
struct BlockBarrier {
  static constexpr int turn = 1;       // 1 a consumer: whose turn it is to issue products
  static constexpr int warpgroup = 4;  // 1 a consumer: its own 128 threads
  static constexpr int consumers = 7;  // all consumers
};

template <class Chosen> class Consumer {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  static constexpr int tile_keys = config.tile_keys;
  static constexpr bool compiled = config.formula == Formula::compiled;
  static constexpr bool changes = changes_scores<Chosen>();
  /// Rows' ranges may come while the first scores are in the tensor cores.
  static constexpr bool begins_early = config.formula == Formula::range && !config.passes_by();
  static constexpr bool takes_turns = config.formula != Formula::changed;
  using Plan = SharedPlan<Chosen>;
  using Product = ptx::Wgmma<config.type>;

  __device__ __forceinline__ Consumer(const ParamsOf<Chosen>& params, const Plan& plan,
                                      int warpgroup)
      : params_(params),
        plan_(plan),
        slots_(plan),
        warpgroup_(warpgroup),
        lane_(int(threadIdx.x % 32)),
        first_row_(warpgroup * config.warpgroup_rows + int(threadIdx.x / 32 % 4) * 16),
        // exp2 takes scores in units of log2; a changed score is already scaled.
        scale_(changes ? 1.0f : params.problem.scale),
        c_(1.44269504f * scale_) {}

  __device__ __forceinline__ void run() {
    if (takes_turns && warpgroup_ == config.consumers - 1)
      your_turn();  // the first is warpgroup 0's
    const Slot<Chosen>* slot = &slots_.take();
    while (slot->assignment.work.rows != 0) {
      walk(slot);
      // A query tile that goes on in the next slot was walked to its end: this is another one.
      const Slot<Chosen>& following = slots_.take();
      store(slot->assignment);
      release_slot();
      slot = &following;
    }
    if (lane_ == 0) ptx::cp_async_bulk_wait<0>();
  }

 private:
  // ---- who waits for whom

  __device__ __forceinline__ void release_slot() {
    __syncwarp();
    slots_.release(lane_ == 0);
  }
  /// The Q of the query tile before, or the output that stands in its place, has been read.
  __device__ __forceinline__ void release_former_query() {
    if (!leaving_) return;
    if (lane_ == 0) {
      ptx::cp_async_bulk_wait_read<0>();
      plan_.queries(warpgroup_).release(query_at_.before());
    }
    leaving_ = false;
  }
  /// With one stage Q has served its last key tile: at once, the next has nowhere else to go.
  __device__ __forceinline__ void release_only_query() {
    if (lane_ == 0) plan_.queries(warpgroup_).release(query_at_);
    query_at_.advance();
  }
  __device__ __forceinline__ void my_turn() const {
    ptx::barrier_sync(BlockBarrier::turn + warpgroup_, 256);
  }
  __device__ __forceinline__ void your_turn() const {
    const int next = warpgroup_ == config.consumers - 1 ? 0 : warpgroup_ + 1;
    ptx::barrier_arrive(BlockBarrier::turn + next, 256);
  }

  // ---- the walk over key tiles

  __device__ __forceinline__ void walk(const Slot<Chosen>*& slot) {
    if constexpr (!begins_early) slots_.wait_for_rest();
    if constexpr (config.formula == Formula::range)
      walk_range(*slot);
    else if constexpr (compiled)
      walk_runs(slot);
    else
      walk_chunks(slot);
  }

  /// The query tile to its last output.
  __device__ __forceinline__ void walk_range(const Slot<Chosen>& slot) {
    const Assignment& a = slot.assignment;
    if constexpr (config.passes_by()) {
      const OwnKeys own = slot.own[warpgroup_];
      int tile = a.last_tile - 1;
      // The first tile has no turn, whether computed or passed by.
      bool turn = own.first < own.last;
#pragma unroll 1
      for (; tile >= own.last; --tile, turn = true) pass_by(a, tile, turn);
      if (own.first == own.last) return pass_query();
      walk_tiles(slot, own);
#pragma unroll 1
      for (tile = own.first - 1; tile >= a.first_tile; --tile) pass_by(a, tile, true);
    } else {
      walk_tiles(slot, {a.first_tile, a.last_tile, end_of_all});
    }
  }

  /// Tiles that the range cuts at its upper end, whole tiles, tiles that it cuts at its lower end.
  __device__ __forceinline__ void walk_tiles(const Slot<Chosen>& slot, const OwnKeys& own) {
    int tile = own.last - 1;
    first_step(slot, tile, own.end - tile * tile_keys <= config.narrow_keys());
    --tile;
    const KeyRange all = slot.all[warpgroup_];
    const int lowest_whole = score::larger((all.begin + tile_keys - 1) / tile_keys, own.first);
    int stop = score::larger(all.end / tile_keys, own.first);
    for (;;) {
#pragma unroll 1
      for (; tile >= stop; --tile) step<true>(slot, tile);
      if (tile < own.first) break;
#pragma unroll 1
      for (; tile >= lowest_whole; --tile) step<false>(slot, tile);
      if (tile < own.first) break;
      stop = own.first;
    }
    if (config.query_stages == 1) release_only_query();
    last_output();
  }

  /// A query tile without rows of this warpgroup's.
  __device__ __forceinline__ void pass_query() {
    plan_.queries(warpgroup_).wait_full(query_at_);
    release_former_query();
  }

  /// A tile that the others compute: its turn, and its stages when they are there to be released.
  __device__ __forceinline__ void pass_by(const Assignment& a, int tile, bool turn) {
    plan_.keys().wait_full(key_at_);
    if (lane_ == 0) plan_.keys().release(key_at_);
    key_at_.advance();
    if (turn) my_turn(), your_turn();
    mend_values(a, tile);
    plan_.values().wait_full(value_at_);
    if (lane_ == 0) plan_.values().release(value_at_);
    value_at_.advance();
  }

  /// Tiles that the scout found live, 32 a slot.
  __device__ __forceinline__ void walk_chunks(const Slot<Chosen>*& slot) {
    bool first = true;
    for (;;) {
      const Assignment& a = slot->assignment;
#pragma unroll 1
      for (unsigned live = a.live; live != 0; live &= live - 1, first = false) {
        partial_ = a.partial >> (__ffs(int(live)) - 1) & 1u;
        changed_step(*slot, a.last_tile - __ffs(int(live)), first);
      }
      if (!slot->assignment.more) break;
      take_more(slot);
    }
    if (config.query_stages == 1) release_only_query();
    last_output();
  }
  /// The same of compiled formulas: runs of tiles that the mask cuts and runs of whole ones, each a
  /// loop of its own, so that no branch stands between a tile's products. Tiles before the first
  /// and after the last that rows of this warpgroup see are passed by.
  __device__ __forceinline__ void walk_runs(const Slot<Chosen>*& slot) {
    bool turn = false;  // the first tile has none, whether computed or passed by
    Runs runs = runs_of(*slot);
    const unsigned before =
        config.passes_by() ? tiles_before(runs.live, slot->assignment.live) : 0u;
#pragma unroll 1
    for (unsigned tiles = before; tiles != 0; tiles &= tiles - 1, turn = true)
      pass_by(slot->assignment, slot->assignment.last_tile - __ffs(int(tiles)), turn);
    if (runs.live == 0) {  // no row sees anything, here or in a slot to come
      start();
      release_former_query();
      if (config.query_stages == 1) release_only_query();
      return;
    }
    first_step(*slot, runs.next(), false, turn);
    for (;;) {
      while (runs.live != 0) {
#pragma unroll 1
        while (runs.is_cut()) step<true>(*slot, runs.next());
#pragma unroll 1
        while (runs.is_whole()) step<false>(*slot, runs.next());
      }
      if (!slot->assignment.more) break;
      take_more(slot);
      runs = runs_of(*slot);
    }
    if (config.query_stages == 1) release_only_query();
    last_output();
    const unsigned after =
        config.passes_by() ? tiles_after(own(*slot).live, slot->assignment.live) : 0u;
#pragma unroll 1
    for (unsigned tiles = after; tiles != 0; tiles &= tiles - 1)
      pass_by(slot->assignment, slot->assignment.last_tile - __ffs(int(tiles)), true);
  }
  /// The next slot of the same query tile.
  __device__ __forceinline__ void take_more(const Slot<Chosen>*& slot) {
    slot = &slots_.take();
    slots_.wait_for_rest();
    release_slot();
  }

  /// This warpgroup's tiles of a slot, from the last on.
  struct Runs {
    unsigned live, cut;
    int last_tile;

    __device__ __forceinline__ bool is_cut() const { return (live & (0u - live) & cut) != 0; }
    __device__ __forceinline__ bool is_whole() const { return (live & (0u - live) & ~cut) != 0; }
    __device__ __forceinline__ int next() {
      const int tile = last_tile - __ffs(int(live));
      live &= live - 1;
      return tile;
    }
  };
  __device__ __forceinline__ OwnTiles own(const Slot<Chosen>& slot) const {
    if constexpr (config.passes_by())
      return slot.tiles[warpgroup_];
    else
      return {slot.assignment.live, slot.assignment.partial};
  }
  __device__ __forceinline__ Runs runs_of(const Slot<Chosen>& slot) const {
    return {own(slot).live, care_about(slot), slot.assignment.last_tile};
  }
  /// Tiles of a slot that take the long way: cut by the mask or by the ends of the keys, which the
  /// outermost alone can be; all, where weights are exact.
  __device__ __forceinline__ unsigned care_about(const Slot<Chosen>& slot) const {
    const Assignment& a = slot.assignment;
    const KeyRange all = slot.all[warpgroup_];
    if (all.begin > a.first_tile * tile_keys) return ~0u;
    return own(slot).partial | (all.end < a.last_tile * tile_keys ? 1u : 0u);
  }

  __device__ __forceinline__ void start() {
    softmax_.start();
#pragma unroll
    for (float& o : output_) o = 0.0f;
    plan_.queries(warpgroup_).wait_full(query_at_);
  }

  /// The first tile: nothing to overlap with yet. `narrow`: its rows see the first half of it only.
  /// `turn`: another tile was passed by before it.
  __device__ __forceinline__ void first_step(const Slot<Chosen>& slot, int tile, bool narrow,
                                             bool turn = false) {
    start();
    plan_.keys().wait_full(key_at_);
    if (config.passes_by() && narrow) {
      first_weights(slot, tile, reinterpret_cast<float(&)[config.narrow_keys() / 2]>(scores_));
#pragma unroll
      for (int i = config.narrow_keys() / 2; i < tile_keys / 2; ++i) scores_[i] = 0.0f;
    } else {
      first_weights(slot, tile, scores_, turn);
    }
    pack_with_care(slot, tile);
  }
  template <int count>
  __device__ __forceinline__ void first_weights(const Slot<Chosen>& slot, int tile,
                                                float (&scores)[count], bool turn = false) {
    if (turn) my_turn();
    issue_scores(scores);
    if (turn) your_turn();
    release_former_query();
    if constexpr (begins_early) slots_.wait_for_rest();
    finish_scores<0>();
    apply_formula(slot, tile, scores);
    softmax_.begin(scores, c_);
    softmax_.weigh(scores, c_);
  }

  /// Scores of this tile beside the output of the tile before; the softmax runs under the latter.
  template <bool masked> __device__ __forceinline__ void step(const Slot<Chosen>& slot, int tile) {
    plan_.keys().wait_full(key_at_);
    my_turn();
    issue_scores(scores_);
    plan_.values().wait_full(value_at_);
    if (config.rescales_late()) rescale();
    issue_output();
    your_turn();
    finish_scores<1>();
    if constexpr (masked)
      apply_formula(slot, tile, scores_);
    else if constexpr (compiled && changes)
      tile_mask(slot, tile).change(scores_);
    softmax_.raise(scores_, c_);
    softmax_.weigh(scores_, c_);
    finish_output();
    if constexpr (masked) {
      if (!config.rescales_late()) rescale();
      pack_with_care(slot, tile);
    } else {
      pack();
      if (!config.rescales_late()) rescale();
    }
  }

  /// Formulas are long: one body for the first tile and the others, without turns.
  __device__ __forceinline__ void changed_step(const Slot<Chosen>& slot, int tile, bool first) {
    if (first) start();
    plan_.keys().wait_full(key_at_);
    issue_scores(scores_);
    release_former_query();
    if (!first) {
      plan_.values().wait_full(value_at_);
      issue_output();
      finish_scores<1>();
      finish_output();
    } else {
      finish_scores<0>();
    }
    apply_formula(slot, tile, scores_);
    softmax_.raise(scores_, c_);
    softmax_.weigh(scores_, c_);
    rescale();
    pack_with_care(slot, tile);
  }

  __device__ __forceinline__ void store(const Assignment& a) {
    const Epilogue<Chosen> epilogue(params_.problem, a, first_row_);
    if (!config.plain && params_.output_path == OutputPath::general)
      epilogue.store(output_, softmax_, c_, scale_);
    else
      epilogue.store_fast(output_, softmax_, c_, scale_, staging());
    if (config.query_stages > 1) query_at_.advance(), leaving_ = true;
  }
  /// The output may take the place of this query tile's Q where another stage holds the next Q.
  __device__ __forceinline__ Staging staging() const {
    const bool box = config.query_stages > 1 && params_.output_path == OutputPath::box;
    return {box ? &params_.out : nullptr, params_.output_path != OutputPath::unaligned,
            plan_.query(query_at_.stage, warpgroup_), BlockBarrier::warpgroup + warpgroup_};
  }

  __device__ __forceinline__ void last_output() {
    plan_.values().wait_full(value_at_);
    if (config.rescales_late()) rescale();
    issue_output();
    finish_output();
  }

  // ---- the steps

  /// S = Q K^T of the tile's first keys, as many as there are scores; issued and committed, not
  /// waited for.
  template <int count> __device__ __forceinline__ void issue_scores(float (&scores)[count]) {
    // The descriptors of a wide head fill more uniform registers than there are: made anew.
    const unsigned query = plan_.query(query_at_.stage, warpgroup_);
    const auto q = MatrixDescriptor::k_major(
        config.head_dim > 128 || changes ? ptx::address_again(query) : query);
    const auto k = MatrixDescriptor::k_major(plan_.key(key_at_.stage));
    constexpr ptx::Major along = ptx::Major::k;
    ptx::pin(scores);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < config.head_dim / 16; ++i) {
      const auto a = q.at_columns(i, config.warpgroup_rows), b = k.at_columns(i, tile_keys);
      if (i == 0)
        Product::template shared<along, along, ptx::Sums::replace>(scores, a, b);
      else
        Product::template shared<along, along, ptx::Sums::add>(scores, a, b);
    }
    ptx::wgmma_commit();
  }

  /// O += P V, issued and committed, not waited for.
  __device__ __forceinline__ void issue_output() {
    const auto v = MatrixDescriptor::mn_major(plan_.value(value_at_.stage), tile_keys);
    ptx::pin(output_);
#pragma unroll
    for (auto& step : weights_) ptx::pin(step);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < tile_keys / 16; ++i)
      Product::template registers<ptx::Major::mn, ptx::Sums::add>(output_, weights_[i],
                                                                  v.at_rows(i));
    ptx::wgmma_commit();
  }

  template <int pending> __device__ __forceinline__ void finish_scores() {
    ptx::wgmma_wait<pending>();
    ptx::pin(scores_);
    if (lane_ == 0) plan_.keys().release(key_at_);
    key_at_.advance();
  }
  __device__ __forceinline__ void finish_output() {
    ptx::wgmma_wait<0>();
    ptx::pin(output_);
    ptx::pin(scores_);  // packing stays behind the wait: the old weights were in use
    if (lane_ == 0) plan_.values().release(value_at_);
    value_at_.advance();
  }

  /// The weights as operand a of the next product, rounded after their sum was taken.
  __device__ __forceinline__ void pack() {
#pragma unroll
    for (int i = 0; i < tile_keys / 4; ++i)
      weights_[i / 4][i % 4] = ptx::pack<config.type>(scores_[2 * i], scores_[2 * i + 1]);
  }
  /// The same of tiles whose V has rows that nobody sees, and of rows whose weights are exact.
  __device__ __forceinline__ void pack_with_care(const Slot<Chosen>& slot, int tile) {
    mend_values(slot.assignment, tile);
    if (!config.plain && slot.splits_weights[warpgroup_]) add_rests();
    pack();
  }
  /// What the weights lose when they are rounded, multiplied first: V stays for the weights
  /// themselves.
  __device__ __forceinline__ void add_rests() {
#pragma unroll
    for (int i = 0; i < tile_keys / 4; ++i) {
      const float low = scores_[2 * i], high = scores_[2 * i + 1];
      const auto rounded = ptx::unpack<config.type>(ptx::pack<config.type>(low, high));
      weights_[i / 4][i % 4] = ptx::pack<config.type>(low - rounded.low, high - rounded.high);
    }
    plan_.values().wait_full(value_at_);
    if (config.rescales_late()) rescale(), softmax_.moved = false;
    issue_output();
    ptx::wgmma_wait<0>();
    ptx::pin(output_);
    ptx::pin(scores_);
  }
  /// The output of the tiles before, for this tile's to be added to it.
  __device__ __forceinline__ void rescale() {
    if (!softmax_.moved) return;
#pragma unroll
    for (int i = 0; i < config.value_dim / 2; ++i) output_[i] *= softmax_.factor[i / 2 % 2];
  }

  /// Of the tile's first keys, as many as there are scores.
  template <int count> __device__ __forceinline__ void apply_formula(const Slot<Chosen>& slot,
                                                                     int tile,
                                                                     float (&scores)[count]) {
    const TileMask<Chosen> mask = tile_mask(slot, tile);
    if constexpr (compiled) {
      if constexpr (changes) mask.change(scores);
      if (!mask_reads_memory || is_cut_by_mask(slot, tile)) mask.keep(scores);
    } else if constexpr (changes) {
      mask.change(scores, partial_);
    }
    mask.hide(scores, warpgroup_);
  }
  /// A mask that holds no pointer costs its comparisons, which a branch around them would keep from
  /// running under the products (2 % of a causal mask's time at D = 64).
  static constexpr bool mask_reads_memory = reads_memory<Chosen>();
  /// Others take the long way for the ends of their keys or for exact weights.
  __device__ __forceinline__ bool is_cut_by_mask(const Slot<Chosen>& slot, int tile) const {
    const int at = slot.assignment.last_tile - 1 - tile;
    return (own(slot).partial >> at & 1u) != 0;
  }
  __device__ __forceinline__ TileMask<Chosen> tile_mask(const Slot<Chosen>& slot, int tile) const {
    return TileMask<Chosen>(params_, slot, first_row_, tile);
  }

  /// Rows of V that no row of the sequence may see become zeros: a weight of 0 does not make 0 of a
  /// NaN. Only tiles at the ends of a sequence have such rows. All consumers do it together.
  __device__ __forceinline__ void mend_values(const Assignment& a, int tile) {
    KeyRange values = a.values;
    if constexpr (config.formula == Formula::changed) {
      const ForwardParams& p = params_.problem;
      const int end = score::smaller((tile + 1) * tile_keys, a.sequence.key_length);
      if (partial_ && !p.mask.program.everything()) {
        const KeyRange seen = keys_seen_by_any(p, a.sequence, a.work, tile * tile_keys, end);
        values = {score::larger(values.begin, seen.begin), score::smaller(values.end, seen.end)};
      }
    }
    const int first = values.begin - tile * tile_keys, last = values.end - tile * tile_keys;
    if (first <= 0 && last >= tile_keys) return;
    plan_.values().wait_full(value_at_);
    auto* chunks =
        reinterpret_cast<uint4*>(plan_.memory + (plan_.value(value_at_.stage) - plan_.base));
    const int thread = int(threadIdx.x) - 128;
    for (int i = thread; i < config.value_bytes() / 16; i += 128 * config.consumers) {
      const int row = i / 8 % tile_keys;
      if (row < first || row >= last) chunks[i] = uint4{0, 0, 0, 0};
    }
    ptx::fence_proxy_async_shared();
    ptx::barrier_sync(BlockBarrier::consumers, 128 * config.consumers);
  }

  const ParamsOf<Chosen>& params_;
  const Plan& plan_;
  int warpgroup_, lane_;
  int first_row_;  // of this warp, in the tile
  float scale_, c_;
  SlotReader<Chosen> slots_;
  RingPosition<config.query_stages> query_at_;
  RingPosition<config.stages> key_at_, value_at_;
  bool partial_ = false;  // of the tile at hand, Formula::changed only
  bool leaving_ = false;  // the former query tile still holds its stage

  float scores_[tile_keys / 2];
  unsigned weights_[tile_keys / 16][4];
  float output_[config.value_dim / 2];
  Softmax softmax_;
};

}  // namespace tilefold::cuda::sm90
