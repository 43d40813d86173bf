// What a block asks its formula: of a tile of keys, of one key, of one score.
#pragma once

#include "cuda/kernels/any/programs.hpp"
#include "cuda/kernels/score_steps.cuh"

namespace tilefold::cuda::any {

/// A block's problem and sequence.
struct FormulaContext {
  const ForwardParams& p;
  const SequenceInfo& s;
};
/// Keys [first, last) of a sequence: a tile, or what of it the work has.
struct TileKeys {
  int first, last;
};

/// Built-in masks and score steps, as ForwardParams describes them.
struct DescribedFormula {
  __device__ score::Truth tile_answer(const FormulaContext& c, const ForwardWork& work,
                                      TileKeys keys) const {
    return cuda::tile_answer(c.p, c.s, work, keys.first, keys.last);
  }
  __device__ bool keep(const FormulaContext& c, const score::Place& place, QueryKey at) const {
    return c.p.mask.keep(query_position(c.p, c.s, at.query), key_position(c.p, c.s, at.key), place);
  }
  __device__ float change(const FormulaContext& c, const score::Place& place, QueryKey at,
                          float score) const {
    return change_score(c.p, c.s, place, at, {0, c.p.step_count}, score);
  }
};

/// That, and programs. Key tiles of `tile_keys` are asked 32 at a time, one a lane: every warp asks
/// for itself, and the block need not wait.
template <int tile_keys> class InterpretedFormula {
 public:
  __device__ explicit InterpretedFormula(const FormulaPrograms& programs) : programs_(programs) {}

  __device__ score::Truth tile_answer(const FormulaContext& c, const ForwardWork& work,
                                      TileKeys keys) {
    const score::Truth described = cuda::tile_answer(c.p, c.s, work, keys.first, keys.last);
    if (programs_.mask.count == 0 || described.no()) return described;
    const int tile = keys.first / tile_keys;
    if (tile < first_tile_ || tile >= first_tile_ + 32) ask(c, work, tile / 32 * 32);
    const unsigned bit = 1u << (tile - first_tile_);
    return described && score::Truth::of((full_ & bit) != 0, (met_ & bit) != 0);
  }
  __device__ bool keep(const FormulaContext& c, const score::Place& place, QueryKey at) const {
    if (!DescribedFormula{}.keep(c, place, at)) return false;
    return programs_.mask.count == 0 || value(c, programs_.mask, place, at, 0.0f).truth;
  }
  /// A score that a step or a program makes -inf is hidden.
  __device__ float change(const FormulaContext& c, const score::Place& place, QueryKey at,
                          float score) const {
    int done = 0;
    for (int i = 0; i < programs_.change_count; ++i) {
      const ChangeProgram& program = programs_.changes[i];
      score = change_score(c.p, c.s, place, at, {done, program.steps_before}, score);
      done = program.steps_before;
      if (score == -score::infinity<float>()) return score;
      score = value(c, program.code, place, at, score).real;
    }
    return change_score(c.p, c.s, place, at, {done, c.p.step_count}, score);
  }

 private:
  __device__ void ask(const FormulaContext& c, const ForwardWork& work, int first_tile) {
    first_tile_ = first_tile;
    const int first = (first_tile + int(threadIdx.x) % 32) * tile_keys;
    const int low = score::larger(first, work.first_key);
    const int high = score::smaller(first + tile_keys, work.last_key);
    score::Truth answer = score::Truth::none;
    if (low < high)
      answer = mask_answer(programs_.mask, c.p, c.s, tile_of(c.p, c.s, work, low, high));
    met_ = __ballot_sync(0xffffffffu, !answer.no());
    full_ = __ballot_sync(0xffffffffu, answer.yes());
  }
  __device__ static score::Value<int> value(const FormulaContext& c,
                                            const score::InstructionList& code,
                                            const score::Place& place, QueryKey at, float score) {
    return element(code, score::Point<int>::of(query_position(c.p, c.s, at.query),
                                               key_position(c.p, c.s, at.key), score, place));
  }
  /// One copy in a kernel, however often it is asked: the interpreter is a loop over a switch.
  __device__ __noinline__ static score::Value<int> element(const score::InstructionList& code,
                                                           const score::Point<int>& at) {
    return score::interpreted<int>(code, at);
  }

  const FormulaPrograms& programs_;
  int first_tile_ = -32;  // of those asked for
  unsigned met_ = 0, full_ = 0;
};

}  // namespace tilefold::cuda::any
