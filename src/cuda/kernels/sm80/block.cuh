// What every block of this family does, however its warps share it: its rows, its first copies and
// the formula.
#pragma once

#include "cuda/kernels/sm80/compiled.cuh"
#include "cuda/kernels/sm80/loader.cuh"
#include "cuda/kernels/sm80/rows.cuh"
#include "cuda/tile/formula.cuh"

namespace tilefold::cuda::sm80 {

/// All but the newest `pending` groups of copies are here, for every thread.
template <int pending> __device__ __forceinline__ void arrived() {
  ptx::cp_async_wait<pending>();
  __syncthreads();
}

template <class Chosen> class BlockBase {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  using Plan = SharedPlan<Chosen>;
  static constexpr bool changes = changes_scores<Chosen>();

  __device__ __forceinline__ BlockBase(const ForwardParams& params, BlockWork& block,
                                       unsigned char* shared)
      : params_(params),
        block_(block),
        shared_(ptx::shared_address(shared)),
        rows_(reinterpret_cast<Row*>(shared + Plan::rows)),
        spans_(reinterpret_cast<KeySpan*>(shared + Plan::spans)),
        // exp2 takes scores in units of log2; a changed score is already scaled.
        c_(1.44269504f * (changes ? 1.0f : ::fabsf(params.scale))) {}

 protected:
  /// A score is its sum times this.
  __device__ __forceinline__ float score_scale() const {
    return changes ? 1.0f : ::fabsf(params_.scale);
  }
  static __device__ __forceinline__ int warp_row() {
    return ptx::thread_again() / 32 * config.warp_rows();
  }
  __device__ __forceinline__ const SequenceInfo& sequence() const {
    return params_.sequences[block_.work.sequence];
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

  /// `first_row` and `key` are those of the warp's scores: in the block, and in the sequence.
  /// `program`: whether the mask program must be read by element.
  template <class Scores>
  __device__ __forceinline__ void apply_formula(Scores& scores, int first_row, int key,
                                                bool program, score::Truth seen) const {
    constexpr int rows = 2 * sizeof(Scores) / sizeof(scores[0]);
    const int lane = ptx::thread_again() % 32, first_key = key + 2 * (lane % 4);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const int in_tile = first_row + 16 * (r / 2) + 8 * (r % 2) + lane / 4;
      if constexpr (config.formula == Formula::changed)
        change_scores(scores, r, rows_[in_tile], first_key, program);
      if constexpr (config.formula == Formula::compiled)
        apply_compiled(scores, r, rows_[in_tile], first_key, program);
      if (seen.maybe()) {
        const Row row = rows_[in_tile];
        hide_outside(scores, r, first_key, row.begin, row.end);
      }
    }
  }

  template <class Scores>
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

  /// Positions of keys are one apart: a score's is its row's and a constant.
  template <class Scores>
  __device__ __forceinline__ void apply_compiled(Scores& scores, int r, const Row& row,
                                                 int first_key, bool program) const {
    const auto& formula = formula_of<Chosen>(params_);
    const score::Place at = place_of(params_, sequence(), block_.work.sequence, row.head);
    const score::Position query(query_position(params_, sequence(), row.query));
    const int key = key_position(params_, sequence(), first_key);
    if constexpr (changes)
      for_row(scores, r, [&](float& s, int k) {
        s = formula.change.change(s * params_.scale, query, score::Position(key, k), at);
      });
    if (!program) return;
    for_row(scores, r, [&](float& s, int k) {
      s = decided(formula.mask.keep(query, score::Position(key, k), at))
              ? s
              : -score::infinity<float>();
    });
  }

  /// Q has arrived. The maximum of s * scale is that of s only for a positive scale: a negative one
  /// moves its sign into Q, exactly. Each warp turns its own rows; true where that was needed.
  __device__ __forceinline__ bool turn_query() const {
    if (changes || params_.scale >= 0.0f) return false;
    auto* words = reinterpret_cast<unsigned*>(reinterpret_cast<unsigned char*>(rows_) - Plan::rows +
                                              Plan::query) +
                  warp_row() * config.head_dim / 2;
    for (int i = int(threadIdx.x % 32); i < config.warp_rows() * config.head_dim / 2; i += 32)
      words[i] ^= 0x80008000u;
    return true;
  }

  const ForwardParams& params_;
  BlockWork& block_;
  unsigned shared_;
  Row* rows_;
  KeySpan* spans_;
  float c_;
};

}  // namespace tilefold::cuda::sm80
