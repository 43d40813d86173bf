#include "cuda/runtime/check.hpp"

#include <string>

#include "tilefold/error.hpp"

namespace tilefold::cuda {

void require_success(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // a failed launch stays on record otherwise
  const ErrorCode code =
      result == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device_failed;
  throw Error(code, std::string(what) + " failed: " + cudaGetErrorString(result) + " (" +
                        cudaGetErrorName(result) + ")");
}

}  // namespace tilefold::cuda
