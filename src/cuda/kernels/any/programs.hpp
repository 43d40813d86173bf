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

/// Rows and keys of one sequence, by indices; both ends included.
struct MaskTile {
  int sequence;
  QueryRange queries;
  score::Interval keys, heads;
};
/// Packed rows of a work against keys [first_key, last_key). Rows that straddle heads may hold any
/// query.
TILEFOLD_HD constexpr MaskTile tile_of(const ForwardParams& p, const SequenceInfo& s,
                                       const ForwardWork& work, int first_key, int last_key) {
  const long long last_row = work.first_row + work.rows - 1;
  return {work.sequence,
          queries_of(s, work),
          {first_key, last_key - 1},
          {query_of(p, s, work.kv_head, work.first_row).head,
           query_of(p, s, work.kv_head, last_row).head}};
}

/// What an interpreted mask says of a tile.
TILEFOLD_HD score::Truth mask_answer(const score::InstructionList& mask, const ForwardParams& p,
                                     const SequenceInfo& s, const MaskTile& tile) {
  const score::Interval queries = positions_between(query_position(p, s, tile.queries.first),
                                                    query_position(p, s, tile.queries.last));
  const score::Interval keys =
      positions_between(key_position(p, s, tile.keys.low), key_position(p, s, tile.keys.high));
  const score::Interval kv_heads{tile.heads.low / p.group, tile.heads.high / p.group};
  return score::interpreted<score::Interval>(
             mask, {queries, keys, tile.heads, kv_heads, score::Span(0.0f),
                    place_of(p, s, tile.sequence, tile.heads.low)})
      .truth;
}

}  // namespace tilefold::cuda::any
