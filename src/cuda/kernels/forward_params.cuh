// What every forward kernel is given: one struct in parameter space, all layouts already turned
// into pointers and strides. All offsets count elements and are 64-bit.
//
// Rows are packed as in plan/schedule.hpp: a list of rows holds `pack` query heads of one KV head,
// all of them or one; row r of a list is query r % Sq of head list * pack + r / Sq. A block of
// threads computes one ForwardWork.
#pragma once

#include "cuda/kernels/mask_program.cuh"
#include "cuda/tile/element_type.hpp"

namespace tilefold::cuda {

/// One sequence of the batch. Written by the host, or by the setup kernel where lengths live on the
/// device; the setup kernel has bounded every field, so kernels check none.
struct SequenceInfo {
  long long query_begin;  // first row in a ragged query; 0 in a dense one
  long long key_begin;    // first row in a ragged key; 0 otherwise
  long long page_begin;   // first entry in page_ids, in entries; paged only
  int query_length, key_length;
  int query_start, key_start;  // position = start + stride * index
  int offset;                  // Sk - Sq, or that of the whole sequence
  int broken;                  // 1: lengths or page ids were wrong; the sequence's rows become NaN
};

/// Strides of a tensor of rows. `outer` is the sequence's, or the page's in a pool, where `row` is
/// the slot's; axes that broadcast have stride 0.
struct Strides {
  long long outer, row, head;
};

/// Where one row stands: {sequence, row of the tensor}, or {page, slot}.
struct RowPlace {
  long long outer, row;
  TILEFOLD_HD constexpr long long offset(const Strides& s, int head) const {
    return outer * s.outer + row * s.row + head * s.head;
  }
};

/// Query, key or value. Columns are contiguous. Stored number * scale = the number that counts.
struct Operand {
  const void* data;
  ElementType type;
  Strides strides;
  const float* scale;  // null: 1
  Strides scale_strides;
};

enum class ScoreStepKind : int { softcap, alibi, bias };
/// What a bias is read at.
enum class ReadAt : int { index, position };

/// One change of the scores; applied in order.
struct ScoreStep {
  ScoreStepKind kind;
  ElementType type;                   // of a bias
  ReadAt at;                          // of a bias
  float cap;                          // of a softcap
  const void* data;                   // slopes (f32) or bias
  long long batch, head, query, key;  // strides; 0 broadcasts
};

/// What one block of threads computes: rows [first_row, first_row + rows) of one list of a sequence
/// over keys [first_key, last_key).
struct ForwardWork {
  long long first_row;
  long long part;  // index of this (row tile, split) among all parts
  int rows;        // 0: nothing
  int sequence;
  int kv_head;  // number of the list; where a list holds the whole group, its KV head
  int first_key, last_key;
  int split, splits;
};

/// How many items a grid shaped by capacities has; used where the work list is null.
struct WorkShape {
  long long items;
  int tile_rows;   // rows of one item
  int row_tiles;   // at most, a list
  int splits;      // at most, a row
  int split_keys;  // 0: rows are never split
  // The order in which blocks start. Under a causal mask the row tiles of one head are a run, each
  // longer than the one before: blocks take from `runs_together` runs in turn, longest tiles first,
  // so that the last blocks of the grid are short ones.
  int run_tiles = 1, runs_together = 1;

  static constexpr int merge_warps = 4;  // of a block
  /// Blocks that merge the rows of one item: a warp a row, unless the items alone fill a card. Few
  /// items have many rows: 8 of 128 rows, a block each, took 180 us of an H200.
  TILEFOLD_HD constexpr int merge_blocks() const {
    constexpr long long enough = 8192;
    const int most = (tile_rows + merge_warps - 1) / merge_warps;
    if (items <= 0 || items >= enough) return 1;
    return int(score::smaller<long long>(most, enough / items));
  }
};

/// Weights keep more than 16 bits in heads of fewer outputs (query_length * value_dim) and in rows
/// that see fewer keys.
struct ExactWeights {
  long long outputs;
  int keys;
};

struct ForwardParams {
  static constexpr int max_steps = 6;

  Operand query, key, value;
  void* out;
  Strides out_strides;
  ElementType out_type;
  float* lse;           // null: none
  Strides lse_strides;  // outer: sequence

  int batch, query_heads, kv_heads, group;
  int pack, lists;  // query heads of a list of rows; lists of a sequence: query_heads / pack
  int head_dim, value_dim;
  int query_stride, key_stride;  // of positions
  float scale;
  ExactWeights exact_below;

  const SequenceInfo* sequences;  // [batch]
  const int* page_ids;            // null: keys are dense or ragged
  long long page_id_stride;
  long long pages;
  int page_size;

  const float* sinks;  // [query_heads], null: none
  long long sink_stride;

  const ForwardWork* work;  // [shape.items], or null: derived from shape and sequences
  WorkShape shape;

  // Rows that are split: part p holds tile_rows rows, p * tile_rows onward.
  float* part_max;  // [parts * tile_rows], in units of scaled scores; -inf for an empty part
  float* part_sum;  // [parts * tile_rows]
  float* part_out;  // [parts * tile_rows, value_dim], not yet divided

  unsigned* status;  // bits of Status

  int step_count;
  ScoreStep steps[max_steps];
  MaskData mask;
};
static_assert(sizeof(ForwardParams) <= 4096, "kernels of every card take 4 KB of parameters");

TILEFOLD_HD constexpr bool is_paged(const ForwardParams& p) { return p.page_ids != nullptr; }

/// Row tile `number` of a grid in the order of `shape`, as a row tile in the order of heads: a
/// bijection. Two runs of 3 together: 0 1 2 3 4 5 becomes 0 3 1 4 2 5.
TILEFOLD_HD constexpr unsigned interleaved(const WorkShape& shape, unsigned number) {
  if (shape.runs_together == 1) return number;
  const unsigned tiles = unsigned(shape.run_tiles), together = unsigned(shape.runs_together);
  const unsigned runs = unsigned(shape.items) / unsigned(shape.splits) / tiles;
  const unsigned first = number / (tiles * together) * together;
  const unsigned taken = score::smaller(together, runs - first), rest = number - first * tiles;
  return (first + rest % taken) * tiles + rest / taken;
}

/// The work of block `index`. Under causal masks the last rows are the longest, so they start
/// first.
TILEFOLD_HD ForwardWork work_of(const ForwardParams& p, long long index) {
  const WorkShape& shape = p.shape;
  index = shape.items - 1 - index;
  if (p.work != nullptr) return p.work[index];
  ForwardWork work{};
  work.part = index;
  // A grid has fewer than 2^31 blocks: 32-bit divisions, a tenth of the instructions of 64-bit
  // ones.
  unsigned rest = unsigned(index);
  if (shape.splits > 1) {
    work.split = int(rest % unsigned(shape.splits));
    rest /= unsigned(shape.splits);
  }
  rest = interleaved(shape, rest);
  work.first_row = 1LL * int(rest % unsigned(shape.row_tiles)) * shape.tile_rows;
  rest /= unsigned(shape.row_tiles);
  work.kv_head = int(rest % unsigned(p.lists));
  work.sequence = int(rest / unsigned(p.lists));
  const SequenceInfo& s = p.sequences[work.sequence];
  const long long rows = 1LL * p.pack * s.query_length - work.first_row;
  work.splits = 1;
  if (shape.split_keys > 0 && s.key_length > shape.split_keys)
    work.splits = (s.key_length - 1) / shape.split_keys + 1;
  if (rows <= 0 || work.split >= work.splits) return work;
  work.rows = int(score::smaller<long long>(rows, shape.tile_rows));
  work.first_key = work.split * shape.split_keys;
  work.last_key = work.splits == 1
                      ? s.key_length
                      : score::smaller(work.first_key + shape.split_keys, s.key_length);
  return work;
}

/// A packed row's query index and head. A list has fewer than 2^31 rows (make_schedule refuses
/// more): 32-bit divisions, a tenth of the instructions of 64-bit ones.
struct QueryPlace {
  int query, head;
};
TILEFOLD_HD constexpr QueryPlace query_of(const ForwardParams& p, const SequenceInfo& s, int list,
                                          long long row) {
  const unsigned queries = unsigned(s.query_length);
  if (unsigned(row) < queries) return {int(row), list * p.pack};
  const unsigned head = unsigned(row) / queries;
  return {int(unsigned(row) - head * queries), list * p.pack + int(head)};
}

TILEFOLD_HD constexpr RowPlace query_place(const SequenceInfo& s, int sequence, int query) {
  return {sequence, s.query_begin + query};
}

/// Where key `key` of a sequence is stored. A page id outside the pool gives outer = -1: the row
/// must not be read and counts as zeros (either a mask hides it, or the sequence is `broken`).
TILEFOLD_HD RowPlace key_place(const ForwardParams& p, const SequenceInfo& s, int sequence,
                               int key) {
  if (!is_paged(p)) return {sequence, s.key_begin + key};
  const int page = p.page_ids[(s.page_begin + key / p.page_size) * p.page_id_stride];
  return {page >= 0 && page < p.pages ? page : -1, key % p.page_size};
}

TILEFOLD_HD constexpr int query_position(const ForwardParams& p, const SequenceInfo& s, int query) {
  return s.query_start + p.query_stride * query;
}
TILEFOLD_HD constexpr int key_position(const ForwardParams& p, const SequenceInfo& s, int key) {
  return s.key_start + p.key_stride * key;
}
TILEFOLD_HD constexpr score::Place place_of(const ForwardParams& p, const SequenceInfo& s,
                                            int sequence, int query_head) {
  return {sequence, query_head, query_head / p.group, s.query_length, s.key_length, s.offset};
}

TILEFOLD_HD constexpr score::Interval positions_between(int a, int b) {
  return {score::smaller(a, b), score::larger(a, b)};
}

/// Key indices [begin, end), not yet bounded by the sequence and perhaps negative: empty where
/// begin
/// >= end.
struct OpenKeyRange {
  long long begin, end;
};
/// The keys that the range mask leaves one query.
TILEFOLD_HD constexpr OpenKeyRange open_range(const ForwardParams& p, const SequenceInfo& s,
                                              int query) {
  // low <= key_start + step * k - position - offset <= high; a negative step is turned round.
  constexpr long long far = 1LL << 40;  // beyond any key index times any stride
  const RangeMask& range = p.mask.range;
  const long long shift = 0LL + query_position(p, s, query) + s.offset - s.key_start;
  const long long least = range.low == RangeMask::unbounded_low ? -far : range.low + shift;
  const long long most = range.high == RangeMask::unbounded_high ? far : range.high + shift;
  const bool turned = p.key_stride < 0;
  const long long low = turned ? -most : least, high = turned ? -least : most;
  const long long step = turned ? -p.key_stride : p.key_stride;
  if (step == 1) return {low, high + 1};
  // A key's index times the step lies below 2^32, and no index is negative: 32-bit divisions.
  constexpr long long most_bits = 0xffffffffll;
  const unsigned divisor = unsigned(step);
  const unsigned begin = unsigned(score::smaller(score::larger(low, 0ll), most_bits - step));
  const unsigned end = unsigned(score::smaller(score::larger(high, 0ll), most_bits));
  return {(begin + divisor - 1) / divisor, high < 0 ? 0ll : 1ll + end / divisor};
}

/// Key indices [begin, end) within bounds; begin == end where there are none.
struct KeyRange {
  int begin, end;
};
TILEFOLD_HD constexpr KeyRange bounded(OpenKeyRange range, int first, int last) {
  const long long begin = score::larger<long long>(range.begin, first);
  const long long end = score::smaller<long long>(range.end, last);
  return begin < end ? KeyRange{int(begin), int(end)} : KeyRange{first, first};
}
/// Of the keys [first, last), those that the range mask leaves a query.
TILEFOLD_HD constexpr KeyRange range_keys(const ForwardParams& p, const SequenceInfo& s, int query,
                                          int first, int last) {
  return bounded(open_range(p, s, query), first, last);
}

/// The queries that packed rows [first_row, first_row + rows) hold: all, where they straddle heads.
struct QueryRange {
  int first, last;  // both included
};
TILEFOLD_HD constexpr QueryRange queries_of(const SequenceInfo& s, const ForwardWork& work) {
  const unsigned queries = unsigned(s.query_length);
  unsigned first = unsigned(work.first_row);
  if (first >= queries) first %= queries;
  const unsigned last = first + unsigned(work.rows) - 1;
  if (last >= queries) return {0, s.query_length - 1};
  return {int(first), int(last)};
}

/// Of the work's keys, those that the range mask may leave one of its rows: ranges move evenly with
/// the query, so the outermost two bound them all.
TILEFOLD_HD constexpr KeyRange keys_of(const ForwardParams& p, const SequenceInfo& s,
                                       const ForwardWork& work) {
  const long long last_row = work.first_row + work.rows - 1;
  const QueryRange queries = last_row < s.query_length
                                 ? QueryRange{int(work.first_row), int(last_row)}  // no division
                                 : queries_of(s, work);
  const OpenKeyRange a = open_range(p, s, queries.first), b = open_range(p, s, queries.last);
  return bounded({score::smaller(a.begin, b.begin), score::larger(a.end, b.end)}, work.first_key,
                 work.last_key);
}

/// Whether the range mask leaves a row of the work fewer keys than weights need to be
/// rounded: the number is concave in the query, so one of the outermost two has the fewest.
TILEFOLD_HD constexpr bool sees_few(const ForwardParams& p, const SequenceInfo& s,
                                    const ForwardWork& work) {
  const QueryRange queries = queries_of(s, work);
  const KeyRange a = range_keys(p, s, queries.first, 0, s.key_length);
  const KeyRange b = range_keys(p, s, queries.last, 0, s.key_length);
  return score::smaller(a.end - a.begin, b.end - b.begin) < p.exact_below.keys;
}
/// Whether the weights of the work's rows enter their product in two parts (docs/numerics.md).
TILEFOLD_HD constexpr bool splits_weights(const ForwardParams& p, const SequenceInfo& s,
                                          const ForwardWork& work) {
  return 1LL * s.query_length * p.value_dim < p.exact_below.outputs || sees_few(p, s, work);
}

/// What the whole mask says of packed rows [first_row, last_row) against keys [first_key,
/// last_key). Built-in masks are the same for every head; rows that straddle heads may hold any
/// query.
TILEFOLD_HD score::Truth tile_answer(const ForwardParams& p, const SequenceInfo& s,
                                     const ForwardWork& work, int first_key, int last_key) {
  if (p.mask.everything()) return score::Truth::all;
  const QueryRange range = queries_of(s, work);
  const score::Interval queries =
      positions_between(query_position(p, s, range.first), query_position(p, s, range.last));
  const score::Interval keys =
      positions_between(key_position(p, s, first_key), key_position(p, s, last_key - 1));
  return p.mask.classify(queries, keys, place_of(p, s, work.sequence, work.kv_head * p.pack));
}

/// Bits of Plan::status().
struct Status {
  static constexpr unsigned length_invalid = 1;  // device lengths out of order or past a capacity
  static constexpr unsigned page_out_of_range = 2;  // a page id that had to be read
};

}  // namespace tilefold::cuda
