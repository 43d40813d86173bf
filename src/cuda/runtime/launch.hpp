// One checked kernel launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/runtime/check.hpp"

namespace tilefold::cuda {

struct Launch {
  const void* function;
  std::int64_t blocks;  // along x: y and z end at 65535. 0 launches nothing; at most 2^31 - 1
  int threads;
  int shared_bytes = 0;  // dynamic; above 48 KB allow_shared() comes first
  cudaStream_t stream = nullptr;
};

/// Enqueues a kernel whose parameters are `parameters`: their bytes are copied before this returns.
template <class... Parameters>
void launch(const Launch& how, const char* name, const Parameters&... parameters) {
  if (how.blocks == 0) return;
  void* pointers[] = {const_cast<Parameters*>(&parameters)...};
  require_success(
      cudaLaunchKernel(how.function, dim3(unsigned(how.blocks)), dim3(unsigned(how.threads)),
                       pointers, std::size_t(how.shared_bytes), how.stream),
      name);
}

/// The same of a kernel with one parameter, which lies at `parameter`.
inline void launch_bytes(const Launch& how, const char* name, void* parameter) {
  if (how.blocks == 0) return;
  require_success(
      cudaLaunchKernel(how.function, dim3(unsigned(how.blocks)), dim3(unsigned(how.threads)),
                       &parameter, std::size_t(how.shared_bytes), how.stream),
      name);
}

/// Raises a kernel's limit of dynamic shared memory on the current device to what a block may have:
/// the limit is the function's, and plans of one kernel need different amounts.
inline void allow_shared(const void* function, int bytes) {
  if (bytes <= 48 * 1024) return;
  int device = 0, limit = 0;
  require_success(cudaGetDevice(&device), "asking for the current device");
  require_success(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                  "asking for a block's shared memory");
  cudaFuncAttributes own{};
  require_success(cudaFuncGetAttributes(&own, function), "loading a kernel");
  require_success(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       limit - int(own.sharedSizeBytes)),
                  "raising a kernel's shared memory");
}

}  // namespace tilefold::cuda
