// A problem of host tensors as it would stand on a CUDA device: what moves there, and what stays.
#pragma once

#include "tilefold/plan.hpp"

namespace tilefold::testing {

/// Where a CUDA run finds lengths, page tables and starts.
enum class LengthHome { host, device };

/// Calls move(TensorView&) for each tensor that a CUDA run has on the device, present or not; the
/// outputs come as OutputView, out first. With LengthHome::device the capacities of `problem`
/// become those of its lengths.
template <class Move>
void each_moved_tensor(Problem& problem, LengthHome lengths, const Move& move);

/// States the capacities that lengths on a device need.
void state_capacities(Problem& problem);

/// The same problem, its tensors said to be on device 0. Their pointers stay the host's: plan()
/// reads none of them. With LengthHome::host the lengths stay on the host.
Problem described_on_device(const Problem& problem, LengthHome lengths);

/// The same problem with its lengths alone said to be on device 0.
Problem with_lengths_on_device(const Problem& problem);

/// plan() on the backend of the options: for CUDA of described_on_device().
Plan plan_where_it_runs(const Problem& problem, LengthHome lengths = LengthHome::host);

template <class Move> void each_length_tensor(Tensors& t, const Move& move) {
  for (TensorView* tensor :
       {&t.cu_seqlens_q, &t.cu_seqlens_k, &t.query_lengths, &t.key_lengths, &t.pages.table,
        &t.pages.indptr, &t.pages.indices, &t.pages.last_page_size, &t.query_starts, &t.key_starts})
    move(*tensor);
}

template <class Move>
void each_moved_tensor(Problem& problem, LengthHome lengths, const Move& move) {
  Tensors& t = problem.tensors;
  for (OutputView* output : {&t.out, &t.lse}) move(*output);
  for (TensorView* tensor :
       {&t.query, &t.key, &t.value, &t.query_descale.scale, &t.key_descale.scale,
        &t.value_descale.scale, &t.sinks, &t.alibi_slopes, &t.bias})
    move(*tensor);
  if (lengths == LengthHome::device) each_length_tensor(t, move);
}

}  // namespace tilefold::testing
