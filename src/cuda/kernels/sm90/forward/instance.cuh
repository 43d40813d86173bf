// The body of every generated unit: one entry of the registry, compiled.
#pragma once

#include "cuda/kernels/sm90/forward/functions.hpp"
#include "cuda/kernels/sm90/forward/kernel.cuh"
#include "cuda/kernels/sm90/forward/registry.hpp"

namespace tilefold::cuda::sm90 {

template <int index> const void* forward_function() {
  return reinterpret_cast<const void*>(forward_kernel<Choice<registry(index)>>);
}
template <int index> int forward_shared_bytes() {
  return SharedPlan<Choice<registry(index)>>::bytes;
}

}  // namespace tilefold::cuda::sm90
