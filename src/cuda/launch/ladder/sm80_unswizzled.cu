// Two instances that no registry holds.
#include "cuda/launch/ladder/sm80_unswizzled.hpp"

#include "cuda/kernels/sm80/kernel.cuh"

namespace tilefold::cuda::ladder {

namespace {

template <int head_dim> const void* function_of() {
  return reinterpret_cast<const void*>(sm80::forward_kernel<sm80::Choice<unswizzled(head_dim)>>);
}

}  // namespace

const void* unswizzled_function(int head_dim) {
  return head_dim == 64 ? function_of<64>() : function_of<128>();
}

}  // namespace tilefold::cuda::ladder
