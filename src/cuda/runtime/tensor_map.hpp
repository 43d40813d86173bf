// Tensor maps: what the driver makes of a TensorBox for TMA. Links no driver: its entry point comes
// through the runtime.
#pragma once

#include "cuda/runtime/tensor_box.hpp"
#include "cuda/tile/tensor_map.cuh"

namespace tilefold::cuda {

/// Pure host work: no device memory is read, and the map may be passed by value to any number of
/// launches. Throws Error(invalid_argument) for what refusal() names, Error(unsupported) where the
/// driver has no tensor maps (before 12.0), Error(device_failed) with the driver's number where it
/// refuses.
TensorMap encode(const TensorBox& tensor);

/// The same map over memory at `data`, present and a multiple of 16: a quarter of the time of
/// encode(). Throws as encode() does.
void replace_address(TensorMap& map, const void* data);

}  // namespace tilefold::cuda
