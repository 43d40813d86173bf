// A formula that is part of a kernel's type (Formula::compiled), where a list of rows may hold
// several heads: what it says of tiles and of keys.
#pragma once

#include "cuda/kernels/compiled_formula.cuh"
#include "cuda/kernels/forward_params.cuh"
#include "cuda/kernels/sm80/config.hpp"

namespace tilefold::cuda::sm80 {

/// What compiled_forward_kernel is launched with. Its functions pass the ForwardParams on, and find
/// the formula behind them.
template <class F> struct CompiledParams : ForwardParams { F formula; };

template <class Chosen> __device__ __forceinline__ const typename Chosen::Compiled& formula_of(
    const ForwardParams& params) {
  return static_cast<const CompiledParams<typename Chosen::Compiled>&>(params).formula;
}

template <class Chosen> TILEFOLD_HD constexpr bool changes_scores() {
  constexpr Formula formula = Chosen::value.formula;
  if constexpr (formula == Formula::compiled) return Chosen::Compiled::changes;
  return formula == Formula::changed;
}

/// What the compiled mask says of the work's rows against keys [first_key, last_key): of each head
/// of theirs; `some` where heads differ.
template <class Chosen>
__device__ __forceinline__ score::Truth compiled_answer(const ForwardParams& p,
                                                        const SequenceInfo& s,
                                                        const ForwardWork& work, int first_key,
                                                        int last_key) {
  const QueryRange range = queries_of(s, work);
  const score::Interval queries =
      positions_between(query_position(p, s, range.first), query_position(p, s, range.last));
  const score::Interval keys =
      positions_between(key_position(p, s, first_key), key_position(p, s, last_key - 1));
  const auto& mask = formula_of<Chosen>(p).mask;
  const int head = query_of(p, s, work.kv_head, work.first_row).head;
  const int last = query_of(p, s, work.kv_head, work.first_row + work.rows - 1).head;
  const score::Truth answer = mask.keep(queries, keys, place_of(p, s, work.sequence, head));
#pragma unroll 1
  for (int other = head + 1; other <= last && !answer.maybe(); ++other)
    if (!(mask.keep(queries, keys, place_of(p, s, work.sequence, other)) == answer))
      return score::Truth::some;
  return answer;
}

/// Of the keys [first, last), the stretch from the first to the last that the mask may leave a row
/// of the work. Asked by a whole warp, a key a lane.
template <class Chosen>
__device__ __forceinline__ KeyRange keys_maybe_seen(const ForwardParams& p, const SequenceInfo& s,
                                                    const ForwardWork& work, int first, int last) {
  KeyRange seen{last, first};
#pragma unroll 1
  for (int begin = first; begin < last; begin += 32) {
    const int key = begin + int(threadIdx.x % 32);
    const bool any = key < last && !compiled_answer<Chosen>(p, s, work, key, key + 1).no();
    const unsigned lanes = __ballot_sync(0xffffffffu, any);
    if (lanes == 0) continue;
    seen.begin = score::smaller(seen.begin, begin + __ffs(int(lanes)) - 1);
    seen.end = begin + 32 - __clz(int(lanes));
  }
  return seen;
}

}  // namespace tilefold::cuda::sm80
