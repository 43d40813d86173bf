// The score changes of a problem, one element at a time.
#pragma once

#include "cuda/kernels/forward_params.cuh"
#include "cuda/tile/element.cuh"

namespace tilefold::cuda {

/// Indices within a sequence.
struct QueryKey {
  int query, key;
};
/// Steps [first, last) of a problem.
struct StepRange {
  int first, last;
};

/// One scaled score of a query and a key. A score that a step makes
/// -inf is hidden, whatever a later one would make of it.
__device__ __forceinline__ float change_score(const ForwardParams& p, const SequenceInfo& s,
                                              const score::Place& place, QueryKey at,
                                              StepRange steps, float score) {
  for (int i = steps.first; i < steps.last; ++i) {
    const ScoreStep& step = p.steps[i];
    if (score == -score::infinity<float>()) return score;
    if (step.kind == ScoreStepKind::softcap) {
      score = step.cap * score::tanh(score / step.cap);
    } else if (step.kind == ScoreStepKind::alibi) {
      const float slope = load_element(step.data, ElementType::f32,
                                       place.batch * step.batch + place.query_head * step.head);
      score += slope *
               float(key_position(p, s, at.key) - (query_position(p, s, at.query) + place.offset));
    } else {
      const bool positions = step.at == ReadAt::position;
      const long long q = positions ? query_position(p, s, at.query) : at.query;
      const long long k = positions ? key_position(p, s, at.key) : at.key;
      score += load_element(
          step.data, step.type,
          place.batch * step.batch + place.query_head * step.head + q * step.query + k * step.key);
    }
  }
  return score;
}

}  // namespace tilefold::cuda
