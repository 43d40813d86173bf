// The descriptor of a tensor for TMA, as kernels see it: bytes that only the driver writes
// (runtime/tensor_map.hpp).
#pragma once

namespace tilefold::cuda {

/// Laid out as the driver's CUtensorMap. Pass it to a kernel as `const __grid_constant__
/// TensorMap`.
struct alignas(128) TensorMap {
  unsigned char bytes[128];
};

}  // namespace tilefold::cuda
