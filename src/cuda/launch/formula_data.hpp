// Masks and score changes as the data that kernels read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/geometry.hpp"
#include "cuda/kernels/forward_params.cuh"
#include "tilefold/problem.hpp"

namespace tilefold::cuda {

/// A mask as data; its tables still lie on the host.
struct MaskImage {
  MaskData data;
  std::vector<int> table_sequences;  // rows of each table
};

/// What of a formula is no description: parts of its mask, all of which must keep a key, and score
/// changes, each behind the steps before it.
struct FormulaRest {
  struct Change {
    const score::ScoreNode* node;
    int steps_before;
  };
  std::vector<const score::MaskNode*> masks;
  std::vector<Change> changes;
};

/// Empty where the mask is code, or larger than a program holds; then `reason` says so in a
/// sentence. Given a rest, parts that hold code go there.
std::optional<MaskImage> mask_image(const score::MaskNode* mask, std::string& reason,
                                    FormulaRest* rest = nullptr);

/// One change, its tensor still where the problem has it.
struct ScoreStepImage {
  ScoreStepKind kind;
  ReadAt at = ReadAt::index;
  double cap = 0;
  const TensorView* tensor = nullptr;  // of the problem (`of_problem`) or on the host
  bool of_problem = false;
};

/// The named changes of a problem, then those of options.score, in order. Given a rest, code goes
/// there.
std::optional<std::vector<ScoreStepImage>> score_steps(const Problem& problem, std::string& reason,
                                                       FormulaRest* rest = nullptr);

/// Why its steps cannot read what they read at positions.
std::optional<std::string> bias_refusal(const core::Geometry& geometry,
                                        const std::vector<ScoreStepImage>& steps);

/// A step with its strides and type; `data` is left to the caller.
ScoreStep step_of(const ScoreStepImage& image);

ElementType element_type(DType type);

}  // namespace tilefold::cuda
