// How a row leaves any forward kernel: the sink joins, the sum divides, the element type rounds.
#pragma once

#include "cuda/kernels/forward_params.cuh"
#include "cuda/tile/element.cuh"
#include "tilefold/fold.hpp"

namespace tilefold::cuda {

/// What the undivided output is multiplied by, and the row's lse.
struct RowEnd {
  float factor, lse;
};

/// Closes a whole row of `head`: every split has joined. Rows of a broken sequence are NaN.
__device__ __forceinline__ RowEnd end_of_row(const ForwardParams& p, const SequenceInfo& s,
                                             int head, fold::Part<float> part) {
  if (s.broken) {
    const float nan = __builtin_bit_cast(float, 0x7fc00000u);
    return {nan, nan};
  }
  fold::Part<float> joined = part;
  fold::Weights<float> weights{1.0f, 0.0f};
  // A sink is a part without value, joined once.
  if (p.sinks != nullptr)
    joined = fold::join(part, fold::Part<float>{p.sinks[head * p.sink_stride], 1.0f}, weights);
  // Without a visible key the output is 0 and so must be its factor: 0 / 0 would be NaN.
  const float factor = part.is_empty() ? 0.0f : weights.left / joined.sum;
  return {factor, fold::log_sum(joined)};
}

TILEFOLD_HD constexpr long long out_offset(const ForwardParams& p, const SequenceInfo& s,
                                           int sequence, QueryPlace row) {
  return query_place(s, sequence, row.query).offset(p.out_strides, row.head);
}
__device__ __forceinline__ void store_lse(const ForwardParams& p, const SequenceInfo& s,
                                          int sequence, QueryPlace row, float lse) {
  if (p.lse != nullptr)
    p.lse[query_place(s, sequence, row.query).offset(p.lse_strides, row.head)] = lse;
}

}  // namespace tilefold::cuda
