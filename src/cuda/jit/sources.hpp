// The texts that NVRTC reads: every header that the kernels include, as it was when the library was
// built (cmake/embed_kernel_sources.cmake). A machine that runs formulas needs none of our files.
#pragma once

#include <span>

#include "cuda/jit/hash.hpp"

namespace tilefold::cuda::jit {

struct KernelSource {
  const char* name;  // as it is included: "tilefold/score/masks.hpp"
  const char* text;
};

/// By name.
std::span<const KernelSource> kernel_sources();

/// Of all names and texts: another library's kernels are other kernels.
Hash kernel_sources_hash();

}  // namespace tilefold::cuda::jit
