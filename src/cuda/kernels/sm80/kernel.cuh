// Attention forward for compute capability 8.0 and up: mma.sync, cp.async, ldmatrix.
//
// Grid: one block a ForwardWork, x only: tile_rows() packed rows of one (sequence, KV head),
// perhaps one split of their keys. Every warp does the same with 16 * row_blocks rows of its own;
// all threads load. Pipeline: `stages` tiles of K and V. With 2 or more, the copy of tile t +
// stages - 1 is issued when tile t has arrived, one barrier a tile. With 1, V of a tile loads under
// its score product and K of the next under its value product, two barriers a tile.
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
        // exp2 takes scores in units of log2; a changed score is already scaled.
        c_(1.44269504f * (changes ? 1.0f : ::fabsf(params.scale))),
        score_scale_(changes ? 1.0f : ::fabsf(params.scale)) {}

  __device__ __forceinline__ void run() {
    fill_rows();
    Work computer;
    TileWalk<Chosen> walk(block_.wanted.begin, block_.wanted.end);
    const Loader<Chosen> loader(params_, block_, shared_);
    const int first_tile = next(walk);
    if (first_tile != walk.end) {
      loader.query(rows_);
      if constexpr (config.stages == 1)
        fold_in_turns(computer, walk, loader, first_tile);
      else
        fold_in_stages(computer, walk, loader, first_tile);
    }
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

  __device__ __forceinline__ void fill_rows() {
    for (int r = threadIdx.x; r < config.tile_rows(); r += config.threads())
      rows_[r] = row_of(params_, sequence(), block_.work, r);
    __syncthreads();
    const KeySpan all = span_of(rows_, 0, config.tile_rows());
    const KeySpan mine = span_of(rows_, warp_row(), config.warp_rows());
    if (threadIdx.x % 32 == 0) block_.spans[threadIdx.x / 32] = mine;
    if (threadIdx.x == 0) block_.wanted = {all.begin, all.end};
    __syncthreads();
  }

  /// The tiles in flight: `coming[0]` is the one to compute next.
  __device__ __forceinline__ void fold_in_stages(Work& computer, TileWalk<Chosen>& walk,
                                                 const Loader<Chosen>& loader, int first_tile) {
    int coming[config.stages];
    coming[0] = first_tile;
#pragma unroll
    for (int s = 0; s < config.stages - 1; ++s) {
      if (s > 0) coming[s] = coming[s - 1] < 0 ? walk.end : next(walk);
      load(loader, s, coming[s]);
    }
    ptx::cp_async_wait<config.stages - 2>();
    __syncthreads();
    take_query(computer);
    int stage = 0;
    while (coming[0] >= 0) {
      ptx::cp_async_wait<config.stages - 2>();
      __syncthreads();  // the tile is here, and every warp has left the stage that loads next
      int last = coming[config.stages - 2];
      if (last >= 0) last = next(walk);
      load(loader, stage == 0 ? config.stages - 1 : stage - 1, last);
      coming[config.stages - 1] = last;
      fold(computer, stage, coming[0]);
#pragma unroll
      for (int s = 0; s + 1 < config.stages; ++s) coming[s] = coming[s + 1];
      stage = stage + 1 == config.stages ? 0 : stage + 1;
    }
    ptx::cp_async_wait<0>();
  }

  __device__ __forceinline__ void load(const Loader<Chosen>& loader, int stage, int tile) {
    loader.key(stage, tile);
    loader.value(stage, tile);
    ptx::cp_async_commit();
  }

  __device__ __forceinline__ void fold_in_turns(Work& computer, TileWalk<Chosen>& walk,
                                                const Loader<Chosen>& loader, int tile) {
    loader.key(0, tile);
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    __syncthreads();
    take_query(computer);
    while (tile >= 0) {
      ptx::cp_async_wait<0>();
      __syncthreads();  // K is here, and every warp has left V
      loader.value(0, tile);
      ptx::cp_async_commit();
      Scores scores;
      const score::Truth seen = answer(tile);
      if (!seen.no()) computer.query_key(scores, shared_ + Plan::query, shared_ + Plan::key(0));
      ptx::cp_async_wait<0>();
      __syncthreads();  // V is here, and every warp has left K
      const int following = next(walk);
      loader.key(0, following);
      ptx::cp_async_commit();
      if (!seen.no()) {
        apply_formula(scores, tile, seen);
        const auto exponent = computer.softmax.settle(scores, computer.output, c_);
        weights_value(computer, scores, exponent, shared_ + Plan::value(0));
      }
      tile = following;
    }
    ptx::cp_async_wait<0>();
  }

  /// One tile into the running softmax: S = Q K^T, O = O + exp(S) V.
  __device__ __forceinline__ void fold(Work& computer, int stage, int tile) {
    const score::Truth seen = answer(tile);
    if (seen.no()) return;
    const unsigned key_tile = shared_ + Plan::stages + stage * Plan::stage_bytes;
    Scores scores;
    computer.query_key(scores, shared_ + Plan::query, key_tile);
    apply_formula(scores, tile, seen);
    const auto exponent = computer.softmax.settle(scores, computer.output, c_);
    weights_value(computer, scores, exponent, key_tile + config.key_bytes());
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
    return block_.spans[ptx::thread_again() / 32].answer(first, first + config.tile_keys);
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
  float c_, score_scale_;
};

template <class Chosen>
__global__ void __launch_bounds__(Chosen::value.threads(), Chosen::value.blocks_per_sm)
    forward_kernel(const __grid_constant__ ForwardParams params) {
  extern __shared__ __align__(128) unsigned char shared[];
  BlockWork& block = *reinterpret_cast<BlockWork*>(shared + SharedPlan<Chosen>::work);
  if (threadIdx.x == 0) block = block_work(params, work_of(params, blockIdx.x));
  __syncthreads();
  if (block.work.rows == 0) return;
  Block<Chosen>(params, block, shared).run();
}

}  // namespace tilefold::cuda::sm80
