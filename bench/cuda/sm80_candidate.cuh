// The body of every generated unit: one candidate, compiled.
#pragma once

#include "bench/cuda/sm80_candidates.hpp"
#include "cuda/kernels/sm80/kernel.cuh"

namespace tilefold::bench {

template <int index> const void* sm80_candidate_function() {
  using Chosen = cuda::sm80::Choice<sm80_candidate(index)>;
  return reinterpret_cast<const void*>(cuda::sm80::forward_kernel<Chosen>);
}

}  // namespace tilefold::bench
