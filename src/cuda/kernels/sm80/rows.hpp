// The rows of a block and what the range mask says of them: plain arithmetic, for host and device.
#pragma once

#include "cuda/kernels/forward_params.cuh"

namespace tilefold::cuda::sm80 {

/// One packed query row of the block and the keys [begin, end) that the range mask leaves it.
struct Row {
  int begin, end;
  int query;  // index within the sequence; -1: the row exists only to fill the tile
  int head;   // query head
};
static_assert(sizeof(Row) == 16, "ForwardConfig::row_table_bytes");

inline constexpr int no_key = 2147483647;

/// The keys that some row of a set sees lie in [begin, end); every row sees [full_begin, full_end).
struct KeySpan {
  int begin = no_key, end = 0;
  int full_begin = 0, full_end = no_key;

  /// Rows that only fill the tile say nothing.
  TILEFOLD_HD constexpr void add(const Row& row) {
    if (row.query < 0) return;
    begin = score::smaller(begin, row.begin), end = score::larger(end, row.end);
    full_begin = score::larger(full_begin, row.begin), full_end = score::smaller(full_end, row.end);
  }
  TILEFOLD_HD constexpr void join(const KeySpan& other) {
    begin = score::smaller(begin, other.begin), end = score::larger(end, other.end);
    full_begin = score::larger(full_begin, other.full_begin);
    full_end = score::smaller(full_end, other.full_end);
  }
  TILEFOLD_HD constexpr score::Truth answer(int first, int last) const {
    return score::Truth::of(full_begin <= first && last <= full_end && begin < end,
                            begin < last && first < end);
  }
};

/// Row r of the block. A row that sees no key is [no_key, 0); rows past the last fill the tile.
TILEFOLD_HD constexpr Row row_of(const ForwardParams& params, const SequenceInfo& sequence,
                                 const ForwardWork& work, int r) {
  if (r >= work.rows) return {0, no_key, -1, 0};
  const long long packed = work.first_row + r;
  const QueryPlace place = params.pack == 1 ? QueryPlace{int(packed), work.kv_head}
                                            : query_of(params, sequence, work.kv_head, packed);
  const KeyRange keys = range_keys(params, sequence, place.query, work.first_key, work.last_key);
  // A broken sequence is not read: its rows become NaN at the end.
  if (keys.begin >= keys.end || sequence.broken) return {no_key, 0, place.query, place.head};
  return {keys.begin, keys.end, place.query, place.head};
}

}  // namespace tilefold::cuda::sm80
