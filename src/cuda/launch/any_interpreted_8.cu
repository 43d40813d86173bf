// The plain-load kernel that interprets formulas, 8 rows a block: a unit of its own, for it takes
// nvcc as long as all of any.cu.
#include "cuda/kernels/any/kernel.cuh"
#include "cuda/launch/device_functions.hpp"

namespace tilefold::cuda {

const void* any_interpreted_8() {
  return reinterpret_cast<const void*>(
      any::interpreted_forward<any::Choice<any::ForwardConfig{8}>>);
}

}  // namespace tilefold::cuda
