// The rows of a block: which query each is, which keys the range mask leaves it, and what that says
// of a tile of keys.
#pragma once

#include "cuda/kernels/forward_params.cuh"
#include "cuda/kernels/sm80/shared_plan.cuh"

namespace tilefold::cuda::sm80 {

/// Joins the lanes' spans; every lane gets the result.
__device__ __forceinline__ KeySpan across_warp(KeySpan span) {
  constexpr unsigned all = 0xffffffffu;
  return {__reduce_min_sync(all, span.begin), __reduce_max_sync(all, span.end),
          __reduce_max_sync(all, span.full_begin), __reduce_min_sync(all, span.full_end)};
}

/// The span of rows [first, first + count) of the table, asked by one warp.
__device__ __forceinline__ KeySpan span_of(const Row* table, int first, int count) {
  KeySpan span;
  for (int r = threadIdx.x % 32; r < count; r += 32) span.add(table[first + r]);
  return across_warp(span);
}

/// The key tiles of a block in ascending order. A mask program is asked about 32 tiles at once, one
/// a lane; every warp of the block asks the same and hears the same.
template <class Chosen> class TileWalk {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  static constexpr bool asks = config.formula == Formula::changed;
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

 private:
  __device__ __forceinline__ void ask(const ForwardParams& params, const BlockWork& block) {
    const int tile = tile_ + int(threadIdx.x % 32);
    score::Truth answer = score::Truth::none;
    if (tile < last_) {
      const int first = score::larger(tile * config.tile_keys, block.wanted.begin);
      const int last = score::smaller((tile + 1) * config.tile_keys, block.wanted.end);
      answer = tile_answer(params, params.sequences[block.work.sequence], block.work, first, last);
    }
    visible_ = __ballot_sync(0xffffffffu, !answer.no());
    full_ = __ballot_sync(0xffffffffu, answer.yes());
  }

  int tile_, last_;
  unsigned visible_ = 0, full_ = 0;
};

}  // namespace tilefold::cuda::sm80
