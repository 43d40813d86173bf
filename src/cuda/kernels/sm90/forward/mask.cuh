// What masks and score changes do to the scores of one key tile that a thread holds.
#pragma once

#include "cuda/kernels/sm90/forward/shared_plan.cuh"
#include "cuda/tile/formula.cuh"

namespace tilefold::cuda::sm90 {

template <class Chosen> TILEFOLD_HD constexpr bool changes_scores() {
  constexpr Formula formula = Chosen::value.formula;
  if constexpr (formula == Formula::compiled) return Chosen::Compiled::changes;
  return formula == Formula::changed;
}

/// Whether the compiled mask may: one without a pointer has nothing to read by.
template <class Chosen> TILEFOLD_HD constexpr bool reads_memory() {
  if constexpr (Chosen::value.formula == Formula::compiled)
    return alignof(typename Chosen::Compiled::Mask) >= alignof(void*);
  else
    return false;
}

template <class Chosen> class TileMask {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  static constexpr int count = config.tile_keys / 2;  // scores of a thread

  /// `first_row`: of this warp, in the query tile.
  __device__ __forceinline__ TileMask(const ParamsOf<Chosen>& params, const Slot<Chosen>& slot,
                                      int first_row, int tile)
      : all_params_(params),
        params_(params.problem),
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
      const RowKeys keys = keys_of_row(r);
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

  // ---- Formula::compiled: a list of rows is one head, and positions are one apart

  /// Scales the scores and applies the compiled change.
  template <int n> __device__ __forceinline__ void change(float (&s)[n]) const {
    const score::Place at = place();
    for_elements(s, [&](float& x, score::Position q, score::Position k) {
      x = all_params_.formula.change.change(x * params_.scale, q, k, at);
    });
  }
  /// Hides what the compiled mask hides.
  template <int n> __device__ __forceinline__ void keep(float (&s)[n]) const {
    const score::Place at = place();
    for_elements(s, [&](float& x, score::Position q, score::Position k) {
      x = decided(all_params_.formula.mask.keep(q, k, at)) ? x : -score::infinity<float>();
    });
  }

 private:
  /// A compiled mask leaves the ends of the work's keys to hide, the same for all rows.
  __device__ __forceinline__ RowKeys keys_of_row(int r) const {
    if constexpr (config.formula != Formula::compiled) {
      return slot_.rows[row_ + 8 * r];
    } else {
      const Assignment& a = slot_.assignment;
      if (a.sequence.broken) return {end_of_all, 0};
      return {a.work.first_key, a.work.last_key};
    }
  }
  __device__ __forceinline__ score::Place place() const {
    const Assignment& a = slot_.assignment;
    return place_of(params_, a.sequence, a.work.sequence, a.work.kv_head);
  }
  /// Both rows of a key one after the other: what they read of side tensors is mostly the same.
  template <int n, class Visit>
  __device__ __forceinline__ void for_elements(float (&s)[n], const Visit& visit) const {
    const Assignment& a = slot_.assignment;
    const int query = query_position(params_, a.sequence, int(a.work.first_row) + row_);
    const int key = key_position(params_, a.sequence, first_key_);
#pragma unroll
    for (int g = 0; g < n / 4; ++g) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int r = 0; r < 2; ++r)
          visit(s[4 * g + 2 * r + e], score::Position(query, 8 * r),
                score::Position(key, 8 * g + e));
      }
    }
  }

  const ParamsOf<Chosen>& all_params_;
  const ForwardParams& params_;
  const Slot<Chosen>& slot_;
  int row_, tile_begin_, first_key_;
};

}  // namespace tilefold::cuda::sm90
