// What masks and score changes do to the scores of one key tile that a thread holds.
#pragma once

#include "cuda/kernels/sm90/forward/shared_plan.cuh"
#include "cuda/tile/formula.cuh"

namespace tilefold::cuda::sm90 {

template <class Chosen> class TileMask {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  static constexpr int count = config.tile_keys / 2;  // scores of a thread

  /// `first_row`: of this warp, in the query tile.
  __device__ __forceinline__ TileMask(const ForwardParams& params, const Slot<Chosen>& slot,
                                      int first_row, int tile)
      : params_(params),
        slot_(slot),
        row_(first_row + int(threadIdx.x % 32) / 4),
        tile_begin_(tile * config.tile_keys),
        first_key_(tile_begin_ + 2 * int(threadIdx.x % 4)) {}

  /// Hides the keys outside each row's range, of the tile's first keys as many as there are scores.
  template <int n> __device__ __forceinline__ void hide(float (&s)[n], int warpgroup) const {
    const KeyRange all = slot_.all[warpgroup];
    if (tile_begin_ >= all.begin && tile_begin_ + config.tile_keys <= all.end) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const RowKeys keys = slot_.rows[row_ + 8 * r];
      hide_outside(reinterpret_cast<float(&)[1][n / 4][4]>(s), r, first_key_, keys.begin, keys.end);
    }
  }

  /// Scales the scores and applies the changes; where `partial`, the mask program by element too.
  __device__ __forceinline__ void change(float (&s)[count], bool partial) const {
    auto& scores = reinterpret_cast<float(&)[1][count / 4][4]>(s);
    const Assignment& a = slot_.assignment;
#pragma unroll
    for (float& x : s) x *= params_.scale;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row_ + 8 * r >= a.work.rows) continue;
      const QueryPlace place =
          query_of(params_, a.sequence, a.work.kv_head, a.work.first_row + row_ + 8 * r);
      const FormulaRow at{place.query, place.head, first_key_};
#pragma unroll 1
      for (int step = 0; step < params_.step_count; ++step)
        change_row(scores, r, params_.steps[step], at, params_, a.sequence, a.work.sequence,
                   a.work.last_key);
      if (partial && !params_.mask.program.everything())
        hide_by_program(scores, r, at, params_, a.sequence, a.work.sequence);
    }
  }

 private:
  const ForwardParams& params_;
  const Slot<Chosen>& slot_;
  int row_, tile_begin_, first_key_;
};

}  // namespace tilefold::cuda::sm90
