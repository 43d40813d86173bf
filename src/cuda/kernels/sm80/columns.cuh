// One block whose warps share rows (Share::columns): its walk over the keys.
//
// K and V take turns, two barriers a tile. The first also carries the weights from the warps that
// computed them to those that multiply them, and a vote: where a score passed its row's maximum too
// far, the weights are written again, two barriers more; that happens once or twice a row. Weights
// in two parts take the same place after each other, two barriers more.
#pragma once

#include "cuda/kernels/sm80/block.cuh"
#include "cuda/kernels/sm80/columns_compute.cuh"
#include "cuda/kernels/sm80/columns_epilogue.cuh"

namespace tilefold::cuda::sm80 {

template <class Chosen> class ColumnBlock : BlockBase<Chosen> {
  using Base = BlockBase<Chosen>;
  using Base::block_, Base::c_, Base::config, Base::params_, Base::rows_;
  using Base::shared_, Base::spans_;
  using typename Base::Plan;

 public:
  using Work = ColumnComputer<Chosen>;

  using Base::Base;

  /// `mine` is what the block computes, in registers, before it stands in shared memory for all.
  __device__ __forceinline__ void run(BlockWork& mine) {
    TileWalk<Chosen> walk(mine.wanted.begin, mine.wanted.end);
    const int first_tile = walk.next(params_, mine);
    if (threadIdx.x == 0) block_ = mine;
    this->load_first(Loader<Chosen>(params_, mine, shared_), mine, first_tile);
    Work computer;
    if (first_tile == walk.end)
      arrived<0>();
    else if (mine.splits_weights)
      fold_in_turns<WeightParts::two>(computer, walk, first_tile);
    else
      fold_in_turns<WeightParts::one>(computer, walk, first_tile);
    ColumnEpilogue<Chosen>(params_, block_.work, rows_, shared_rows())
        .store(computer, c_, this->score_scale());
  }

 private:
  __device__ __forceinline__ SharedRow* shared_rows() const {
    return reinterpret_cast<SharedRow*>(reinterpret_cast<unsigned char*>(rows_) - Plan::rows +
                                        Plan::shared_rows);
  }

  template <WeightParts parts>
  __device__ __forceinline__ void fold_in_turns(Work& computer, TileWalk<Chosen>& walk, int tile) {
    const Loader<Chosen> loader(params_, block_, shared_);
    arrived<1>();
    if (this->turn_query()) __syncthreads();
    while (true) {
      typename Work::Scores scores;
      typename Work::template Weights<parts> weights;
      score(computer, scores, tile);
      const bool passed = computer.weigh(scores, c_, shared_, weights);
      ptx::cp_async_wait<0>();
      const bool again = __syncthreads_or(passed);  // weights and V are here, K is left
      const int following = walk.next(params_, block_);
      loader.key(0, following);
      ptx::cp_async_commit();
      if (again) computer.weigh_again(scores, c_, shared_, shared_rows(), weights);
#pragma unroll
      for (int r = 0; r < Work::rows; ++r) computer.softmax.sum[r] += weights.sums[r];
      if (group_sees(tile)) computer.weights_value(shared_);
      if constexpr (parts == WeightParts::two) {
        __syncthreads();  // the rounded weights are left
        computer.write_rest(weights, shared_);
        __syncthreads();
        if (group_sees(tile)) computer.weights_value(shared_);
      }
      tile = following;
      if (tile < 0) break;
      arrived<0>();  // K; V and the weights are left
      loader.value(0, tile);
      ptx::cp_async_commit();
    }
  }

  __device__ __forceinline__ void score(const Work& computer, typename Work::Scores& scores,
                                        int tile) const {
    const WarpPlace at = WarpPlace::again();
    const int first = tile / 2 * config.tile_keys + at.keys_half * Work::keys;
    const score::Truth seen = span_of(at.score_row() / config.warp_rows(), 32 / config.warp_rows())
                                  .answer(first, first + Work::keys);
    if (seen.no()) return Work::hide_all(scores);
    computer.query_key(scores, shared_);
    this->apply_formula(scores, at.score_row(), first, tile & 1, seen);
  }

  __device__ __forceinline__ bool group_sees(int tile) const {
    const int first = tile / 2 * config.tile_keys;
    return !span_of(WarpPlace::again().first_row / config.warp_rows(), 4)
                .answer(first, first + config.tile_keys)
                .no();
  }

  /// Of `count` warps' rows together.
  __device__ __forceinline__ KeySpan span_of(int first, int count) const {
    KeySpan span = spans_[first];
    for (int i = 1; i < count; ++i) span.join(spans_[first + i]);
    return span;
  }
};

}  // namespace tilefold::cuda::sm80
