// The body of every generated unit: one entry of the registry, compiled.
#pragma once

#include "cuda/kernels/sm80/functions.hpp"
#include "cuda/kernels/sm80/kernel.cuh"
#include "cuda/kernels/sm80/registry.hpp"

namespace tilefold::cuda::sm80 {

template <int index> const void* forward_function() {
  return reinterpret_cast<const void*>(forward_kernel<Choice<registry(index)>>);
}

}  // namespace tilefold::cuda::sm80
