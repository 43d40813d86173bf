#include "cuda/runtime/driver_entry.hpp"

#include <cuda_runtime_api.h>

#include "cuda/runtime/check.hpp"

namespace tilefold::cuda {

void* driver_entry(const char* name, unsigned since) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  require_success(
      cudaGetDriverEntryPointByVersion(name, &address, since, cudaEnableDefault, &found),
      "cudaGetDriverEntryPointByVersion");
  return found == cudaDriverEntryPointSuccess ? address : nullptr;
}

}  // namespace tilefold::cuda
