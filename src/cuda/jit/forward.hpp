// The forward kernel of a formula that comes as C++ text: compiled by NVRTC, or found in the cache.
//
//   const ForwardShape shape{Family::sm90, HalfType::bf16, 2};
//   const JitForward made = compile_forward({mask, change, shape, "sm_90a"}, nvrtc(), cache);
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "cuda/jit/cache.hpp"
#include "cuda/jit/forward_layout.hpp"
#include "cuda/jit/nvrtc.hpp"
#include "score/code_source.hpp"

namespace tilefold::cuda::jit {

struct ForwardRequest {
  score::FormulaCode mask, change;
  ForwardShape shape;
  std::string architecture;  // "sm_90a", which has wgmma and TMA; sm80: the card's own, "sm_86"
};

struct JitForward {
  std::shared_ptr<const Cubin> cubin;
  Origin origin;
  double seconds;    // of compiling, or of finding it
  int shared_bytes;  // dynamic
  /// Of the kernel's one parameter: where the first visible key of each sequence and the formula
  /// lie in it; in the formula the mask lies first.
  std::size_t first_keys_at, formula_at, formula_bytes, change_at;
};

/// What NVRTC is asked for. Besides the formula the text holds assertions of every number that
/// JitForward tells of the kernel: a difference is an error of compilation.
Translation forward_translation(const ForwardRequest& request);

/// Throws Error(invalid_argument) where the formula does not compile, with its errors and their
/// lines, and Error(unsupported) where there is no NVRTC.
JitForward compile_forward(const ForwardRequest& request, const Nvrtc& compiler,
                           KernelCache& cache);

}  // namespace tilefold::cuda::jit
