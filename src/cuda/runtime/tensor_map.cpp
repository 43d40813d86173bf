#include "cuda/runtime/tensor_map.hpp"

#include <cuda.h>

#include <cstring>

#include "cuda/runtime/driver_entry.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda {

namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) &&
              alignof(TensorMap) >= alignof(CUtensorMap));

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

void require_driver_success(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    throw Error(ErrorCode::device_failed,
                std::string(what) + " failed: driver error " + std::to_string(int(result)));
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
  static const auto encode_tiled =
      required_driver_entry<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled", 12000);
  CUtensorMap encoded;
  require_driver_success(
      encode_tiled(&encoded, data_type(tensor.type), cuuint32_t(tensor.rank),
                   const_cast<void*>(tensor.data), extents.data(), strides.data(), box.data(),
                   every_element.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(tensor.swizzle),
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      "cuTensorMapEncodeTiled");
  TensorMap map;
  std::memcpy(&map, &encoded, sizeof map);
  return map;
}

void replace_address(TensorMap& map, const void* data) {
  static const auto replace = required_driver_entry<decltype(&cuTensorMapReplaceAddress)>(
      "cuTensorMapReplaceAddress", 12000);
  require_driver_success(replace(reinterpret_cast<CUtensorMap*>(&map), const_cast<void*>(data)),
                         "cuTensorMapReplaceAddress");
}

}  // namespace tilefold::cuda
