// Kernels compiled for a formula's type (include/tilefold/cuda/instantiate.cuh) among the others.
#pragma once

#include <string>
#include <vector>

#include "cuda/kernels/sm90/forward/config.hpp"
#include "cuda/launch/forward_kernel.hpp"
#include "tilefold/cuda/compiled.hpp"

namespace tilefold::cuda {

/// A registered kernel, and the name of its row.
struct CompiledRow {
  CompiledForward kernel;
  std::string name;
};

/// All that are registered. Nothing can be registered from the first call on.
const std::vector<CompiledRow>& compiled_rows();

sm90::ForwardConfig config_of(const CompiledForward& kernel);

/// Whether the problem's mask and score change have the kernel's types; why not, where they do not.
std::optional<std::string> formula_refusal(const CompiledForward& kernel,
                                           const core::Geometry& geometry, const Problem& problem);
/// The same of a formula that needs no types: what stands beside it, and a scale that changes no
/// order. `changed`: it has a score change.
std::optional<std::string> beside_refusal(const core::Geometry& geometry, const Problem& problem,
                                          bool changed);
/// Whether a kernel is registered for the types of the problem's formula.
bool formula_is_compiled(const Problem& problem);

/// The bytes of the kernel's formula: side tensors through `tensors`.
std::vector<unsigned char> formula_image(const CompiledForward& kernel, const Problem& problem,
                                         const SideTensors& tensors);

/// Of each sequence, the first key that the mask may leave one of its queries; 0 without keys.
std::vector<int> first_visible_keys(const core::Geometry& geometry, const score::MaskNode* mask);

}  // namespace tilefold::cuda
