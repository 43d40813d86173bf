// The formula of a plan whose kernel interprets it: lists of instructions in the device's memory.
#pragma once

#include "cuda/kernels/forward_params.cuh"
#include "tilefold/score/interpreter.hpp"

namespace tilefold::cuda::any {

/// A score change behind the first `steps_before` steps of ForwardParams.
struct ChangeProgram {
  score::InstructionList code;
  int steps_before;
};

/// What of a formula ForwardParams does not describe. A key is visible where its mask says so too.
struct FormulaPrograms {
  static constexpr int max_changes = 6;
  score::InstructionList mask;
  int change_count;
  ChangeProgram changes[max_changes];
};
static_assert(sizeof(ForwardParams) + sizeof(FormulaPrograms) + 16 <= 4096,
              "kernels of every card take 4 KB of parameters");

/// The heads that packed rows of a list are of.
TILEFOLD_HD constexpr score::Interval heads_of(const ForwardParams& p, const SequenceInfo& s,
                                               const ForwardWork& work) {
  const int last = int(work.first_row) + work.rows - 1;
  return {query_of(p, s, work.kv_head, work.first_row).head,
          query_of(p, s, work.kv_head, last).head};
}

/// What an interpreted mask says of the rows of a work against keys [first_key, last_key).
TILEFOLD_HD score::Truth mask_answer(const score::InstructionList& mask, const ForwardParams& p,
                                     const SequenceInfo& s, const ForwardWork& work, int first_key,
                                     int last_key) {
  const QueryRange range = queries_of(s, work);
  const score::Interval heads = heads_of(p, s, work);
  const score::Point<score::Interval> tile{
      positions_between(query_position(p, s, range.first), query_position(p, s, range.last)),
      positions_between(key_position(p, s, first_key), key_position(p, s, last_key - 1)), heads,
      score::Span(0.0f), place_of(p, s, work.sequence, heads.low)};
  return score::interpreted<score::Interval>(mask, tile).truth;
}

}  // namespace tilefold::cuda::any
