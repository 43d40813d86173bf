#include "cuda/runtime/pointer.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <iterator>
#include <string>

#include "cuda/runtime/check.hpp"
#include "cuda/runtime/driver_entry.hpp"
#include "tilefold/error.hpp"
#include "tilefold/tensor_view.hpp"

namespace tilefold::cuda {

PointerPlace place_of(const void* pointer, AskFor what) {
  static const auto ask =
      required_driver_entry<decltype(&cuPointerGetAttributes)>("cuPointerGetAttributes", 7000);
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  CUmemorytype type{};  // stays 0 for memory that CUDA knows nothing of
  int device = -1;
  CUdeviceptr first = 0;
  std::size_t bytes = 0;
  void* answers[] = {&type, &device, &first, &bytes};
  const auto count = unsigned(std::size(attributes)) - (what == AskFor::place ? 2 : 0);
  const CUresult result = ask(count, attributes, answers, reinterpret_cast<CUdeviceptr>(pointer));
  if (result != CUDA_SUCCESS || type != CU_MEMORYTYPE_DEVICE) return {};
  return {device, {std::uintptr_t(first), std::uintptr_t(first) + bytes}};
}

void require_on_device(const char* name, const void* pointer, int device) {
  cudaPointerAttributes found{};
  require_success(cudaPointerGetAttributes(&found, pointer), "cudaPointerGetAttributes");
  if (found.type == cudaMemoryTypeManaged) return;
  const std::string said = std::string(name) + " is said to be on " +
                           to_string(Device::cuda(device)) + ": its pointer is ";
  if (found.type != cudaMemoryTypeDevice)
    throw Error(ErrorCode::device_mismatch, said + "host memory");
  if (found.device != device)
    throw Error(ErrorCode::device_mismatch, said + "on " + to_string(Device::cuda(found.device)));
}

}  // namespace tilefold::cuda
