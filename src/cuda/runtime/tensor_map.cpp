#include "cuda/runtime/tensor_map.hpp"

#include <cuda.h>

#include <cstring>

#include "cuda/runtime/check.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda {

namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) &&
              alignof(TensorMap) >= alignof(CUtensorMap));

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode driver_encode() {
  static const Encode function = [] {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    require_success(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000,
                                                     cudaEnableDefault, &found),
                    "cudaGetDriverEntryPointByVersion");
    return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(address) : nullptr;
  }();
  if (function == nullptr)
    throw Error(ErrorCode::unsupported,
                "the driver has no cuTensorMapEncodeTiled: it must be of CUDA 12.0 or later");
  return function;
}

CUtensorMapDataType data_type(ElementType type) {
  switch (type) {
    case ElementType::f32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case ElementType::f16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case ElementType::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

CUtensorMapSwizzle swizzle_of(SwizzleBytes swizzle) {
  switch (swizzle) {
    case SwizzleBytes::b128: return CU_TENSOR_MAP_SWIZZLE_128B;
    case SwizzleBytes::b64: return CU_TENSOR_MAP_SWIZZLE_64B;
    case SwizzleBytes::b32: return CU_TENSOR_MAP_SWIZZLE_32B;
    default: return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

}  // namespace

TensorMap encode(const TensorBox& tensor) {
  if (const std::string reason = refusal(tensor); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "tensor map: " + reason);
  std::array<cuuint64_t, 5> extents{};
  std::array<cuuint64_t, 4> strides{};
  std::array<cuuint32_t, 5> box{};
  constexpr std::array<cuuint32_t, 5> every_element = {1, 1, 1, 1, 1};
  for (std::size_t axis = 0; axis < std::size_t(tensor.rank); ++axis) {
    extents[axis] = cuuint64_t(tensor.extents[axis]);
    box[axis] = cuuint32_t(tensor.box[axis]);
    if (axis > 0) strides[axis - 1] = cuuint64_t(tensor.strides[axis]);
  }
  CUtensorMap encoded;
  const CUresult result = driver_encode()(
      &encoded, data_type(tensor.type), cuuint32_t(tensor.rank), const_cast<void*>(tensor.data),
      extents.data(), strides.data(), box.data(), every_element.data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(tensor.swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw Error(ErrorCode::device_failed,
                "cuTensorMapEncodeTiled failed: driver error " + std::to_string(int(result)));
  TensorMap map;
  std::memcpy(&map, &encoded, sizeof map);
  return map;
}

}  // namespace tilefold::cuda
