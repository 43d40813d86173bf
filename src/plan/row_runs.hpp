// Rows of a work list as runs of one head's queries, and what a mask says of them.
//
// Row r of (sequence, KV head) is query r % Sq of head kv_head * group + r / Sq
// (plan/schedule.hpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/geometry.hpp"
#include "score/nodes.hpp"

namespace tilefold::planner {

/// A stretch of rows that belong to one query head: queries [first_query, first_query + count).
struct RowRun {
  int query_head;
  int first_query;
  int count;
  int lane;  // of its first row, from the start of the row range
};

/// Calls visit(RowRun) for the rows [first_row, last_row) of one sequence and KV head.
template <class Visit> void for_each_run(const core::Geometry& geometry, int sequence, int kv_head,
                                         std::int64_t first_row, std::int64_t last_row,
                                         const Visit& visit) {
  const int queries = geometry.sequences[std::size_t(sequence)].query_length;
  for (std::int64_t row = first_row; row < last_row;) {
    const int head = int(row / queries), query = int(row % queries);
    const int count = int(std::min<std::int64_t>(queries - query, last_row - row));
    visit(RowRun{kv_head * geometry.group() + head, query, count, int(row - first_row)});
    row += count;
  }
}

/// The mask's answer for the rows [first_row, last_row) against keys [first_key, last_key): `all`
/// and `none` only where every run says so.
inline score::Truth answer(const core::Geometry& geometry, const score::MaskNode* mask,
                           int sequence, int kv_head, std::int64_t first_row, std::int64_t last_row,
                           int first_key, int last_key) {
  using score::Truth;
  if (mask == nullptr) return Truth::all;
  const score::Interval keys = score::positions_of(geometry.key_position(sequence, first_key),
                                                   geometry.key_stride, last_key - first_key);
  bool every = true, any = false;
  for_each_run(geometry, sequence, kv_head, first_row, last_row, [&](RowRun run) {
    if (any && !every) return;
    const score::Interval queries = score::positions_of(
        geometry.query_position(sequence, run.first_query), geometry.query_stride, run.count);
    const Truth truth = mask->classify(queries, keys, geometry.place(sequence, run.query_head));
    every = every && truth.yes();
    any = any || !truth.no();
  });
  return Truth::of(every && any, any);
}

}  // namespace tilefold::planner
