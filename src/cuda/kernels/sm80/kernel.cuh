// Attention forward for compute capability 8.0 and up: mma.sync, cp.async, ldmatrix.
//
// Grid: one block a ForwardWork, x only: tile_rows() packed rows of one (sequence, KV head),
// perhaps one split of their keys. Every warp does the same with 16 * row_blocks rows of its own;
// all threads load. Pipeline: `stages` tiles of K and V. With 2 or more, the copy of tile t +
// stages - 1 is issued when tile t has arrived, one barrier a tile. With 1, V of a tile loads under
// its score product and K of the next under its value product, two barriers a tile. No barrier
// comes before that of the first tile.
#pragma once

#include "cuda/kernels/sm80/block.cuh"
#include "cuda/kernels/sm80/columns.cuh"
#include "cuda/kernels/sm80/compute.cuh"
#include "cuda/kernels/sm80/epilogue.cuh"

namespace tilefold::cuda::sm80 {

/// One block's walk over its keys, from one warp's side: a warp has rows of its own.
template <class Chosen> class RowBlock : BlockBase<Chosen> {
  using Base = BlockBase<Chosen>;
  using Base::block_, Base::c_, Base::config, Base::params_, Base::rows_;
  using Base::shared_, Base::spans_, Base::warp_row;
  using typename Base::Plan;

 public:
  using Work = Computer<Chosen>;
  using Scores = typename Work::Scores;

  using Base::Base;

  /// `mine` is what the block computes, in registers, before it stands in shared memory for all.
  __device__ __forceinline__ void run(BlockWork& mine) {
    TileWalk<Chosen> walk(mine.wanted.begin, mine.wanted.end);
    const int first_tile = walk.next(params_, mine);
    if (threadIdx.x == 0) block_ = mine;
    this->load_first(Loader<Chosen>(params_, mine, shared_), mine, first_tile);
    // Code of its own for each: a question in the key loop would cost the common one registers.
    if (mine.splits_weights)
      fold_all<WeightParts::two>(walk, mine, first_tile);
    else
      fold_all<WeightParts::one>(walk, mine, first_tile);
  }

 private:
  __device__ __forceinline__ int next(TileWalk<Chosen>& walk) const {
    return walk.next(params_, block_);
  }

  template <WeightParts parts> __device__ __forceinline__ void fold_all(TileWalk<Chosen>& walk,
                                                                        const BlockWork& mine,
                                                                        int first_tile) {
    Work computer;
    if (first_tile == walk.end)
      arrived<0>();
    else if constexpr (config.stages == 1)
      fold_in_turns<parts>(computer, walk, first_tile);
    else
      fold_in_stages<parts>(computer, walk, mine, first_tile);
    Epilogue<Chosen>(params_, block_.work, rows_, warp_row())
        .store(computer, c_, this->score_scale());
  }

  template <WeightParts parts>
  __device__ __forceinline__ void fold_in_stages(Work& computer, TileWalk<Chosen>& walk,
                                                 const BlockWork& mine, int first_tile) {
    TileQueue<Chosen> queue(first_tile);
#pragma unroll
    for (int s = 1; s < config.stages - 1; ++s)
      load(Loader<Chosen>(params_, mine, shared_), s, queue.take(s, walk, params_, mine));
    const Loader<Chosen> loader(params_, block_, shared_);
    arrived<config.stages - 2>();
    take_query(computer);
    int stage = 0;
    while (true) {
      load(loader, stage == 0 ? config.stages - 1 : stage - 1,
           queue.take(config.stages - 1, walk, params_, block_));
      const int tile = queue.first();
      const unsigned key_tile = shared_ + Plan::stages + stage * Plan::stage_bytes;
      if (!answer(tile).no()) {
        Scores scores;
        computer.query_key(scores, shared_ + Plan::query, key_tile);
        fold<parts>(computer, scores, tile, key_tile + config.key_bytes());
      }
      stage = stage + 1 == config.stages ? 0 : stage + 1;
      if (queue.advance(block_) < 0) break;
      arrived<config.stages - 2>();  // and every warp has left the stage that loads next
    }
  }

  __device__ __forceinline__ void take_query(Work& computer) const {
    if (this->turn_query()) __syncwarp();
    computer.query.hold(shared_ + Plan::query);
  }

  __device__ __forceinline__ void load(const Loader<Chosen>& loader, int stage, int tile) const {
    loader.key(stage, tile);
    loader.value(stage, tile);
    ptx::cp_async_commit();
  }

  template <WeightParts parts>
  __device__ __forceinline__ void fold_in_turns(Work& computer, TileWalk<Chosen>& walk, int tile) {
    const Loader<Chosen> loader(params_, block_, shared_);
    arrived<1>();
    take_query(computer);
    while (true) {
      // A warp that sees nothing of the tile computes with the others: barriers stand in no branch.
      Scores scores;
      computer.query_key(scores, shared_ + Plan::query, shared_ + Plan::key(0));
      const int following = turn_to_next(walk, loader);
      fold<parts>(computer, scores, tile, shared_ + Plan::value(0));
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
  template <WeightParts parts> __device__ __forceinline__ void fold(Work& computer, Scores& scores,
                                                                    int tile, unsigned value_tile) {
    const score::Truth seen = answer(tile);
    this->apply_formula(scores, warp_row(), tile / 2 * config.tile_keys, tile & 1,
                        seen.no() ? score::Truth(score::Truth::some) : seen);
    const auto exponent = computer.softmax.settle(scores, computer.output, c_);
    computer.template weights_value<parts>(scores, exponent, value_tile);
  }

  /// What the range mask says of this warp's rows; a warp that sees nothing of a tile only loads.
  __device__ __forceinline__ score::Truth answer(int tile) const {
    const int first = tile / 2 * config.tile_keys;
    return spans_[ptx::thread_again() / 32].answer(first, first + config.tile_keys);
  }
};

/// What a block of a kernel does, whose dynamic shared memory starts at `shared`.
template <class Chosen>
__device__ __forceinline__ void compute_block(const ForwardParams& params, unsigned char* shared) {
  BlockWork& block = *reinterpret_cast<BlockWork*>(shared + SharedPlan<Chosen>::work);
  // Every thread finds out for itself: the first copies wait for no barrier.
  BlockWork mine = block_work(params, work_of(params, blockIdx.x));
  if (mine.work.rows == 0) return;
  if constexpr (Chosen::value.shares_rows())
    ColumnBlock<Chosen>(params, block, shared).run(mine);
  else
    RowBlock<Chosen>(params, block, shared).run(mine);
}

template <class Chosen>
__global__ void __launch_bounds__(Chosen::value.threads(), Chosen::value.blocks_per_sm)
    forward_kernel(const __grid_constant__ ForwardParams params) {
  extern __shared__ __align__(128) unsigned char shared[];
  compute_block<Chosen>(params, shared);
}

/// The same for a formula that is part of the kernel's type.
template <class Chosen>
__global__ void __launch_bounds__(Chosen::value.threads(), Chosen::value.blocks_per_sm)
    compiled_forward_kernel(
        const __grid_constant__ CompiledParams<typename Chosen::Compiled> params) {
  extern __shared__ __align__(128) unsigned char shared[];
  compute_block<Chosen>(params, shared);
}

}  // namespace tilefold::cuda::sm80
