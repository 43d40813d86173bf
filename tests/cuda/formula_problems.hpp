// Random problems for formulas that are compiled into a kernel, ahead of time or at run time.
#pragma once

#include <utility>
#include <vector>

#include "support/problem_generator.hpp"

namespace tilefold::testing {

/// Of one type and head dimension, without a mask of their own.
inline GeneratorLimits limits_of(DType type, int head_dim, const Features& features, KeyForm keys) {
  GeneratorLimits limits;
  limits.work = 1e7;
  limits.demand = Demand{.features = features,
                         .query_dtype = type,
                         .head_dim = head_dim,
                         .keys = keys,
                         .mask = MaskForm::none};
  return limits;
}

/// The problem of a seed with the formula.
inline RandomProblem drawn_with(std::uint64_t seed, const GeneratorLimits& limits, const Mask& mask,
                                const ScoreChange& score) {
  RandomProblem problem = make_random_problem(seed, limits);
  problem.problem.options.mask = mask;
  problem.problem.options.score = score;
  problem.formula_reads_batch = true;
  // Kernels that change no score take positive scales.
  if (score.node() == nullptr && !(problem.problem.options.scale.value_or(1) > 0))
    problem.problem.options.scale.reset();
  return problem;
}

/// All bytes of the output, gaps of its strides included.
inline std::vector<unsigned char> output_of(const Problem& problem) {
  const OutputView& out = problem.tensors.out;
  std::int64_t last = 0;
  for (int axis = 0; axis < out.rank(); ++axis) last += (out.dim(axis) - 1) * out.stride(axis);
  const auto* bytes = static_cast<const unsigned char*>(out.data());
  return {bytes, bytes + (last + 1) * bytes_of(out.dtype())};
}

}  // namespace tilefold::testing
