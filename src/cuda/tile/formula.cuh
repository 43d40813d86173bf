// Score changes and masks applied to the scores that one thread holds.
//
// A thread's scores are float[blocks][groups][4] of 16 x 8 sums (tile/fragment.cuh): row r of the
// thread, r = 2 * block + half, lies at row l / 4 + 8 * half of the block; element e of a group is
// key 8 * group + 2 * (l % 4) + e of the tile.
#pragma once

#include "cuda/kernels/forward_params.cuh"
#include "cuda/tile/element.cuh"
#include "cuda/tile/fragment.cuh"

namespace tilefold::cuda {

/// The scores of one row of a thread, by key: element i is key 8 * (i / 2) + i % 2 from the lane's
/// first.
template <int blocks, int groups, class Change>
__device__ __forceinline__ void for_row(float (&scores)[blocks][groups][4], int row,
                                        const Change& change) {
#pragma unroll
  for (int g = 0; g < groups; ++g) {
#pragma unroll
    for (int e = 0; e < 2; ++e) change(scores[row / 2][g][row % 2 * 2 + e], 8 * g + e);
  }
}

/// One row of a thread: what formulas are asked about it.
struct FormulaRow {
  int query, head;
  int first_key;  // of the lane, in the sequence
};

/// Adds bias elements of one row, read as Read says.
template <ElementType type, int blocks, int groups>
__device__ __forceinline__ void add_bias(float (&scores)[blocks][groups][4], int row,
                                         const ScoreStep& step, long long first, long long key_step,
                                         int keys) {
  for_row(scores, row, [&](float& s, int key) {
    if (key < keys) s += load_element(step.data, type, first + key * key_step);
  });
}

/// Applies one change to one row. Keys from `last_key` on do not exist: their bias is not read.
template <int blocks, int groups>
__device__ __forceinline__ void change_row(float (&scores)[blocks][groups][4], int row,
                                           const ScoreStep& step, const FormulaRow& at,
                                           const ForwardParams& params,
                                           const SequenceInfo& sequence, int batch, int last_key) {
  const int query = query_position(params, sequence, at.query);
  const int key = key_position(params, sequence, at.first_key);
  if (step.kind == ScoreStepKind::softcap) {
    // A score that is -inf is hidden, whatever a later step would make of it.
    for_row(scores, row, [&](float& s, int) {
      const bool hidden = s == -score::infinity<float>();
      s = score::soft_capped(s, step.cap);
      if (hidden) s = -score::infinity<float>();
    });
  } else if (step.kind == ScoreStepKind::alibi) {
    const float slope =
        static_cast<const float*>(step.data)[batch * step.batch + at.head * step.head];
    const int distance = key - (query + sequence.offset);
    for_row(scores, row,
            [&](float& s, int k) { s += slope * float(distance + k * params.key_stride); });
  } else {
    const bool index = step.at == ReadAt::index;
    const long long first = batch * step.batch + at.head * step.head +
                            (index ? at.query : query) * step.query +
                            (index ? at.first_key : key) * step.key;
    const long long key_step = step.key * (index ? 1 : params.key_stride);
    const int keys = last_key - at.first_key;
    switch (step.type) {
      case ElementType::f32:
        return add_bias<ElementType::f32>(scores, row, step, first, key_step, keys);
      case ElementType::f16:
        return add_bias<ElementType::f16>(scores, row, step, first, key_step, keys);
      default: return add_bias<ElementType::bf16>(scores, row, step, first, key_step, keys);
    }
  }
}

/// Keeps the scores whose bit is set; the others become -inf.
template <int blocks, int groups>
__device__ __forceinline__ void keep_only(float (&scores)[blocks][groups][4], int row,
                                          unsigned kept) {
  static_assert(groups * 2 <= 32, "a bit an element");
  for_row(scores, row, [&](float& s, int k) {
    s = kept >> (k / 8 * 2 + k % 2) & 1u ? s : -score::infinity<float>();
  });
}

/// Hides the keys outside [begin, end) of one row: two instructions an element, both on the slow
/// integer pipe, where two compares would be three.
template <int blocks, int groups>
__device__ __forceinline__ void hide_outside(float (&scores)[blocks][groups][4], int row,
                                             int first_key, int begin, int end) {
  keep_only(scores, row, elements_below(end - first_key) & ~elements_below(begin - first_key));
}

/// Whether the mask, range and program together, leaves the key to a query of `queries`. Asked by a
/// whole warp, a query a lane; built-in masks are the same for every head.
__device__ __forceinline__ bool seen_by_any(const ForwardParams& params,
                                            const SequenceInfo& sequence, const score::Place& place,
                                            QueryRange queries, int key) {
  const int position = key_position(params, sequence, key);
#pragma unroll 1
  for (int first = queries.first; first <= queries.last; first += 32) {
    const int query = score::smaller(first + int(threadIdx.x % 32), queries.last);
    const OpenKeyRange range = open_range(params, sequence, query);
    const bool sees =
        key >= range.begin && key < range.end &&
        params.mask.program.answer(query_position(params, sequence, query), position, place).yes();
    if (__any_sync(0xffffffffu, sees)) return true;
  }
  return false;
}

/// Of the keys [first, last), at most 128, the stretch from the first to the last that the mask
/// leaves a query of the work's. Asked by a whole warp, a key a lane, of the program alone and by
/// intervals; that may be blunt, so the ends are asked query by query.
__device__ __forceinline__ KeyRange keys_seen_by_any(const ForwardParams& params,
                                                     const SequenceInfo& sequence,
                                                     const ForwardWork& work, int first, int last) {
  const QueryRange own = queries_of(sequence, work);
  const score::Interval queries = positions_between(query_position(params, sequence, own.first),
                                                    query_position(params, sequence, own.last));
  const score::Place place = place_of(params, sequence, work.sequence, 0);
  KeyRange seen{last, first};
#pragma unroll 1
  for (int begin = first; begin < last; begin += 32) {
    const int key = begin + int(threadIdx.x % 32);
    bool any = key < last;
    if (any) {
      const int position = key_position(params, sequence, key);
      any = !params.mask.program.answer(queries, score::Interval{position, position}, place).no();
    }
    const unsigned lanes = __ballot_sync(0xffffffffu, any);
    if (lanes == 0) continue;
    seen.begin = score::smaller(seen.begin, begin + __ffs(int(lanes)) - 1);
    seen.end = begin + 32 - __clz(int(lanes));
  }
#pragma unroll 1
  while (seen.begin < seen.end && !seen_by_any(params, sequence, place, own, seen.begin))
    ++seen.begin;
#pragma unroll 1
  while (seen.begin < seen.end && !seen_by_any(params, sequence, place, own, seen.end - 1))
    --seen.end;
  return seen;
}

/// Hides what a mask program hides of one row. The program runs in a loop into a bit mask, because
/// its interpreter, unrolled over the elements, would fill the instruction cache.
template <int blocks, int groups>
__device__ __forceinline__ void hide_by_program(float (&scores)[blocks][groups][4], int row,
                                                const FormulaRow& at, const ForwardParams& params,
                                                const SequenceInfo& sequence, int batch) {
  const int query = query_position(params, sequence, at.query);
  const score::Place place = place_of(params, sequence, batch, at.head);
  unsigned seen = 0;
#pragma unroll 1
  for (int i = 0; i < groups * 2; ++i) {
    const int key = key_position(params, sequence, at.first_key + 8 * (i / 2) + i % 2);
    seen |= unsigned(params.mask.program.answer(query, key, place).yes()) << i;
  }
  keep_only(scores, row, seen);
}

}  // namespace tilefold::cuda
