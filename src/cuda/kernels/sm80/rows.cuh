// The rows of a block: which query each is, which keys the range mask leaves it, and what that says
// of a tile of keys.
#pragma once

#include "cuda/kernels/forward_params.cuh"
#include "cuda/kernels/sm80/compiled.cuh"
#include "cuda/kernels/sm80/shared_plan.cuh"

namespace tilefold::cuda::sm80 {

/// Joins the lanes' spans; every lane gets the result.
__device__ __forceinline__ KeySpan across_warp(KeySpan span) {
  constexpr unsigned all = 0xffffffffu;
  return {__reduce_min_sync(all, span.begin), __reduce_max_sync(all, span.end),
          __reduce_max_sync(all, span.full_begin), __reduce_min_sync(all, span.full_end)};
}

/// The key tiles of a block in ascending order. A mask program is asked about 32 tiles at once, one
/// a lane; every warp of the block asks the same and hears the same.
template <class Chosen> class TileWalk {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  static constexpr bool asks = config.formula != Formula::plain;
  static constexpr int end = -1;

  __device__ __forceinline__ TileWalk(int first_key, int last_key)
      : tile_(first_key / config.tile_keys),
        last_((last_key + config.tile_keys - 1) / config.tile_keys) {
    if (first_key >= last_key) tile_ = last_ = 0;
    if constexpr (asks) tile_ -= 32;
  }

  /// A tile's number, doubled, plus 1 where the mask program must be read by element; or `end`.
  __device__ __forceinline__ int next(const ForwardParams& params, const BlockWork& block) {
    if constexpr (!asks) {
      return tile_ < last_ ? 2 * tile_++ : end;
    } else {
      while (visible_ == 0) {
        tile_ += 32;
        if (tile_ >= last_) return end;
        ask(params, block);
      }
      const int lane = __ffs(int(visible_)) - 1;
      visible_ &= visible_ - 1;
      return 2 * (tile_ + lane) + int(~full_ >> lane & 1u);
    }
  }
  /// The tile `steps` after `tile` where no mask program leaves one out. Its state is in shared
  /// memory: the loop has no register for it.
  static __device__ __forceinline__ int neighbour(int tile, int steps, const BlockWork& block) {
    const int there = tile + 2 * steps;
    return there / 2 * config.tile_keys < block.wanted.end ? there : end;
  }

 private:
  __device__ __forceinline__ void ask(const ForwardParams& params, const BlockWork& block) {
    const int tile = tile_ + int(threadIdx.x % 32);
    score::Truth answer = score::Truth::none;
    if (tile < last_) {
      const int first = score::larger(tile * config.tile_keys, block.wanted.begin);
      const int last = score::smaller((tile + 1) * config.tile_keys, block.wanted.end);
      const SequenceInfo& sequence = params.sequences[block.work.sequence];
      if constexpr (config.formula == Formula::compiled)
        answer = compiled_answer<Chosen>(params, sequence, block.work, first, last);
      else
        answer = tile_answer(params, sequence, block.work, first, last);
    }
    visible_ = __ballot_sync(0xffffffffu, !answer.no());
    full_ = __ballot_sync(0xffffffffu, answer.yes());
  }

  int tile_, last_;
  unsigned visible_ = 0, full_ = 0;
};

/// The tiles in flight, oldest first. Without a mask program they are neighbours: one number.
template <class Chosen> class TileQueue {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  using Walk = TileWalk<Chosen>;

  __device__ __forceinline__ explicit TileQueue(int first) { tiles_[0] = first; }
  __device__ __forceinline__ int first() const { return tiles_[0]; }

  /// The tile after the `place` that are in flight, or Walk::end.
  __device__ __forceinline__ int take(int place, Walk& walk, const ForwardParams& params,
                                      const BlockWork& block) {
    if constexpr (!Walk::asks) {
      return Walk::neighbour(tiles_[0], place, block);
    } else {
      tiles_[place] = tiles_[place - 1] < 0 ? Walk::end : walk.next(params, block);
      return tiles_[place];
    }
  }
  /// Leaves the first behind and returns the next.
  __device__ __forceinline__ int advance(const BlockWork& block) {
    if constexpr (!Walk::asks) {
      tiles_[0] = Walk::neighbour(tiles_[0], 1, block);
    } else {
#pragma unroll
      for (int i = 0; i + 1 < config.stages; ++i) tiles_[i] = tiles_[i + 1];
    }
    return tiles_[0];
  }

 private:
  int tiles_[Walk::asks ? config.stages : 1];
};

}  // namespace tilefold::cuda::sm80
