// Masks and score changes as the data that kernels read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/kernels/forward_params.cuh"
#include "tilefold/problem.hpp"

namespace tilefold::cuda {

/// A mask as data; its tables still lie on the host.
struct MaskImage {
  MaskData data;
  std::vector<int> table_sequences;  // rows of each table
};

/// Empty where the mask is code, or larger than a program holds; then `reason` says so in a
/// sentence.
std::optional<MaskImage> mask_image(const score::MaskNode* mask, std::string& reason);

/// One change, its tensor still where the problem has it.
struct ScoreStepImage {
  ScoreStepKind kind;
  ReadAt at = ReadAt::index;
  double cap = 0;
  const TensorView* tensor = nullptr;  // of the problem (`of_problem`) or on the host
  bool of_problem = false;
};

/// The named changes of a problem, then those of options.score, in order.
std::optional<std::vector<ScoreStepImage>> score_steps(const Problem& problem, std::string& reason);

/// A step with its strides and type; `data` is left to the caller.
ScoreStep step_of(const ScoreStepImage& image);

ElementType element_type(DType type);

}  // namespace tilefold::cuda
