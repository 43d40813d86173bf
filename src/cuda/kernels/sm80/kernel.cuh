// Attention forward for compute capability 8.0 and up: mma.sync, cp.async, ldmatrix.
//
// Grid: one block a ForwardWork, x only: tile_rows() packed rows of one (sequence, KV head),
// perhaps one split of their keys. Every warp does the same with 16 * row_blocks rows of its own;
// all threads load. Pipeline: `stages` tiles of K and V. With 2 or more, the copy of tile t +
// stages - 1 is issued when tile t has arrived, one barrier a tile. With 1, V of a tile loads under
// its score product and K of the next under its value product, two barriers a tile. The first score
// product waits for Q and K only; no barrier comes before it but theirs.
#pragma once

#include "cuda/kernels/sm80/compute.cuh"
#include "cuda/kernels/sm80/epilogue.cuh"
#include "cuda/kernels/sm80/loader.cuh"
#include "cuda/kernels/sm80/rows.cuh"
#include "cuda/tile/formula.cuh"

namespace tilefold::cuda::sm80 {

/// One block's walk over its keys, from one warp's side.
template <class Chosen> class Block {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  using Plan = SharedPlan<Chosen>;
  using Work = Computer<Chosen>;
  using Scores = typename Work::Scores;
  static constexpr bool changes = config.formula == Formula::changed;

  __device__ __forceinline__ Block(const ForwardParams& params, BlockWork& block,
                                   unsigned char* shared)
      : params_(params),
        block_(block),
        shared_(ptx::shared_address(shared)),
        rows_(reinterpret_cast<Row*>(shared + Plan::rows)),
        spans_(reinterpret_cast<KeySpan*>(shared + Plan::spans)),
        // exp2 takes scores in units of log2; a changed score is already scaled.
        c_(1.44269504f * (changes ? 1.0f : ::fabsf(params.scale))),
        score_scale_(changes ? 1.0f : ::fabsf(params.scale)) {}

  /// `mine` is what the block computes, in registers, before it stands in shared memory for all.
  __device__ __forceinline__ void run(BlockWork& mine) {
    TileWalk<Chosen> walk(mine.wanted.begin, mine.wanted.end);
    const int first_tile = mine.first_tile = walk.next(params_, mine);
    if (threadIdx.x == 0) block_ = mine;
    load_first(Loader<Chosen>(params_, mine, shared_), mine, first_tile);
    Work computer;
    if (first_tile == walk.end)
      arrived<0>();
    else if constexpr (config.stages == 1)
      fold_in_turns(computer, walk, first_tile);
    else
      fold_in_stages(computer, walk, mine, first_tile);
    Epilogue<Chosen>(params_, block_.work, rows_, warp_row()).store(computer, c_, score_scale_);
  }

 private:
  static __device__ __forceinline__ int warp_row() {
    return ptx::thread_again() / 32 * config.warp_rows();
  }
  __device__ __forceinline__ const SequenceInfo& sequence() const {
    return params_.sequences[block_.work.sequence];
  }
  __device__ __forceinline__ int next(TileWalk<Chosen>& walk) const {
    return walk.next(params_, block_);
  }

  /// Each warp writes the rows that are its own and reads no others: no barrier. Lane l returns
  /// row l of them.
  __device__ __forceinline__ Row fill_rows(const BlockWork& mine) const {
    const int lane = int(threadIdx.x % 32);
    Row own{0, no_key, -1, 0};
    KeySpan span;
    if (lane < config.warp_rows()) {
      own = row_of(params_, params_.sequences[mine.work.sequence], mine.work, warp_row() + lane);
      rows_[warp_row() + lane] = own;
      span.add(own);
    }
    span = across_warp(span);
    if (lane == 0) spans_[threadIdx.x / 32] = span;
    __syncwarp();
    return own;
  }

  /// Asks for the first tile: K and Q, then V, which the score product need not wait for.
  __device__ __forceinline__ void load_first(const Loader<Chosen>& loader, const BlockWork& mine,
                                             int tile) const {
    loader.key(0, tile);
    loader.query(fill_rows(mine));
    ptx::cp_async_commit();
    loader.value(0, tile);
    ptx::cp_async_commit();
  }

  __device__ __forceinline__ void fold_in_stages(Work& computer, TileWalk<Chosen>& walk,
                                                 const BlockWork& mine, int first_tile) {
    TileQueue<Chosen> queue(first_tile);
#pragma unroll
    for (int s = 1; s < config.stages - 1; ++s)
      load(Loader<Chosen>(params_, mine, shared_), s, queue.take(s, walk, params_, mine));
    const Loader<Chosen> loader(params_, block_, shared_);
    arrived<config.stages - 1>();
    take_query(computer);
    int stage = 0;
    while (true) {
      load(loader, stage == 0 ? config.stages - 1 : stage - 1,
           queue.take(config.stages - 1, walk, params_, block_));
      const int tile = queue.first();
      const unsigned key_tile = shared_ + Plan::stages + stage * Plan::stage_bytes;
      if (answer(tile).no()) {
        await_value(tile);
      } else {
        Scores scores;
        computer.query_key(scores, shared_ + Plan::query, key_tile);
        await_value(tile);
        fold(computer, scores, tile, key_tile + config.key_bytes());
      }
      stage = stage + 1 == config.stages ? 0 : stage + 1;
      if (queue.advance(block_) < 0) break;
      arrived<config.stages - 2>();  // and every warp has left the stage that loads next
    }
  }

  /// Only V of the first tile comes later than its K.
  __device__ __forceinline__ void await_value(int tile) const {
    if (tile == block_.first_tile) arrived<config.stages - 1>();
  }

  /// All but the newest `pending` groups of copies are here, for every thread.
  template <int pending> static __device__ __forceinline__ void arrived() {
    ptx::cp_async_wait<pending>();
    __syncthreads();
  }

  __device__ __forceinline__ void load(const Loader<Chosen>& loader, int stage, int tile) const {
    loader.key(stage, tile);
    loader.value(stage, tile);
    ptx::cp_async_commit();
  }

  __device__ __forceinline__ void fold_in_turns(Work& computer, TileWalk<Chosen>& walk, int tile) {
    const Loader<Chosen> loader(params_, block_, shared_);
    arrived<1>();
    take_query(computer);
    while (true) {
      int following;
      if (answer(tile).no()) {
        following = turn_to_next(walk, loader);
      } else {
        Scores scores;
        computer.query_key(scores, shared_ + Plan::query, shared_ + Plan::key(0));
        following = turn_to_next(walk, loader);
        fold(computer, scores, tile, shared_ + Plan::value(0));
      }
      tile = following;
      if (tile < 0) break;
      arrived<0>();  // K, and every warp has left V
      loader.value(0, tile);
      ptx::cp_async_commit();
    }
  }

  /// V is here and every warp has left K: the next K may load.
  __device__ __forceinline__ int turn_to_next(TileWalk<Chosen>& walk,
                                              const Loader<Chosen>& loader) const {
    arrived<0>();
    const int following = next(walk);
    loader.key(0, following);
    ptx::cp_async_commit();
    return following;
  }

  /// A tile's scores into the running softmax: O = O + exp(S) V.
  __device__ __forceinline__ void fold(Work& computer, Scores& scores, int tile,
                                       unsigned value_tile) {
    apply_formula(scores, tile, answer(tile));
    const auto exponent = computer.softmax.settle(scores, computer.output, c_);
    weights_value(computer, scores, exponent, value_tile);
  }

  __device__ __forceinline__ void weights_value(Work& computer, Scores& scores,
                                                const Exponent<Work::rows>& exponent,
                                                unsigned value_tile) const {
    if (block_.splits_weights)
      computer.template weights_value<WeightParts::two>(scores, exponent, value_tile);
    else
      computer.template weights_value<WeightParts::one>(scores, exponent, value_tile);
  }

  /// What the range mask says of this warp's rows; a warp that sees nothing of a tile only loads.
  __device__ __forceinline__ score::Truth answer(int tile) const {
    const int first = tile / 2 * config.tile_keys;
    return spans_[ptx::thread_again() / 32].answer(first, first + config.tile_keys);
  }

  __device__ __forceinline__ void apply_formula(Scores& scores, int tile, score::Truth seen) const {
    const int lane = ptx::thread_again() % 32;
    const int first_key = tile / 2 * config.tile_keys + 2 * (lane % 4);
#pragma unroll
    for (int r = 0; r < Work::rows; ++r) {
      const int in_tile = warp_row() + 16 * (r / 2) + 8 * (r % 2) + lane / 4;
      if constexpr (changes) change_scores(scores, r, rows_[in_tile], first_key, tile & 1);
      if (seen.maybe()) {
        const Row row = rows_[in_tile];
        hide_outside(scores, r, first_key, row.begin, row.end);
      }
    }
  }

  __device__ __forceinline__ void change_scores(Scores& scores, int r, const Row& row,
                                                int first_key, bool program) const {
    for_row(scores, r, [&](float& s, int) { s *= params_.scale; });
    if (row.query < 0) return;
    const FormulaRow at{row.query, row.head, first_key};
#pragma unroll 1
    for (int step = 0; step < params_.step_count; ++step)
      change_row(scores, r, params_.steps[step], at, params_, sequence(), block_.work.sequence,
                 block_.work.last_key);
    if (program) hide_by_program(scores, r, at, params_, sequence(), block_.work.sequence);
  }

  /// Q has arrived. The maximum of s * scale is that of s only for a positive scale: a negative one
  /// moves its sign into Q, exactly. Each warp turns its own rows.
  __device__ __forceinline__ void take_query(Work& computer) const {
    if (!changes && params_.scale < 0.0f) {
      auto* words = reinterpret_cast<unsigned*>(reinterpret_cast<unsigned char*>(rows_) -
                                                Plan::rows + Plan::query) +
                    warp_row() * config.head_dim / 2;
      for (int i = int(threadIdx.x % 32); i < config.warp_rows() * config.head_dim / 2; i += 32)
        words[i] ^= 0x80008000u;
      __syncwarp();
    }
    computer.query.hold(shared_ + Plan::query);
  }

  const ForwardParams& params_;
  BlockWork& block_;
  unsigned shared_;
  Row* rows_;
  KeySpan* spans_;
  float c_, score_scale_;
};

template <class Chosen>
__global__ void __launch_bounds__(Chosen::value.threads(), Chosen::value.blocks_per_sm)
    forward_kernel(const __grid_constant__ ForwardParams params) {
  extern __shared__ __align__(128) unsigned char shared[];
  BlockWork& block = *reinterpret_cast<BlockWork*>(shared + SharedPlan<Chosen>::work);
  // Every thread finds out for itself: the first copies wait for no barrier.
  BlockWork mine = block_work(params, work_of(params, blockIdx.x));
  if (mine.work.rows == 0) return;
  Block<Chosen>(params, block, shared).run(mine);
}

}  // namespace tilefold::cuda::sm80
