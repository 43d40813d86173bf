// Kernels that plan() has NVRTC make of a problem's formula, where the formula comes as text
// (score/code_source.hpp): one row a tile shape and type, whose function is the plan's own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/backend.hpp"
#include "cuda/jit/forward.hpp"
#include "cuda/launch/forward_kernel.hpp"
#include "tilefold/cuda/compiled.hpp"

namespace tilefold::cuda {

/// The kernel of one problem's formula.
struct RunTimeKernel {
  const char* family;
  jit::JitForward code;
  CompiledForward row;  // as one registered, but for function, types and write
  std::shared_ptr<const score::CodeSource> mask, change;
};

/// Why a row cannot take a problem that its tile and type allow.
std::optional<std::string> run_time_refusal(const core::Geometry& geometry, const Problem& problem);

/// A row without its function, as one registered: what a table holds of a kernel that is compiled
/// at run time.
struct RunTimeRow {
  jit::ForwardShape shape;
  CompiledForward kernel;
  std::string name;
};

/// Kernels of `rows`, which they refer to.
std::vector<ForwardKernel> kernels_of(const std::vector<RunTimeRow>& rows,
                                      ForwardKernel (*kernel_of)(const RunTimeRow&));

/// The bytes of the kernel's formula: side tensors through `tensors`.
std::vector<unsigned char> formula_image(const RunTimeKernel& kernel, const SideTensors& tensors);

}  // namespace tilefold::cuda
