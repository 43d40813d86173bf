// Problems of random numbers, with the memory they live in.
#pragma once

#include <vector>

#include "bench/peers.hpp"
#include "core/files/tensor_file.hpp"
#include "tilefold/problem.hpp"

namespace tilefold::bench {

/// Dense self-attention on standard normal numbers. Views in `problem` point into the tensors.
struct DenseProblem {
  explicit DenseProblem(const Shape& shape, int threads);
  DenseProblem(const DenseProblem&) = delete;
  DenseProblem& operator=(const DenseProblem&) = delete;

  files::OwnedTensor query, key, value, out;
  Problem problem;
};

/// `count` ragged sequences of 1 to `longest` tokens, causal: a serving batch, described without
/// data.
struct RaggedDescription {
  RaggedDescription(int count, int longest);
  RaggedDescription(const RaggedDescription&) = delete;
  RaggedDescription& operator=(const RaggedDescription&) = delete;

  std::vector<std::int32_t> cu_seqlens;
  Problem problem;
};

}  // namespace tilefold::bench
