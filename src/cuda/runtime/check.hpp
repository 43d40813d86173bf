// CUDA's error codes as tilefold's exceptions.
#pragma once

#include <cuda_runtime_api.h>

namespace tilefold::cuda {

/// Throws Error(device_failed, or out_of_memory) that says what was tried and CUDA's own words.
void require_success(cudaError_t result, const char* what);

}  // namespace tilefold::cuda
