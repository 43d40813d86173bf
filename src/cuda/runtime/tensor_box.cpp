#include "cuda/runtime/tensor_box.hpp"

namespace tilefold::cuda {

namespace {

constexpr int swizzle_span(SwizzleBytes swizzle) {
  switch (swizzle) {
    case SwizzleBytes::b128: return 128;
    case SwizzleBytes::b64: return 64;
    case SwizzleBytes::b32: return 32;
    default: return 1 << 20;
  }
}

std::string sentence(const char* what, int axis, std::int64_t is, const std::string& must) {
  return std::string(what) + "[" + std::to_string(axis) + "] is " + std::to_string(is) +
         ": it must be " + must;
}

// The stride of an axis of one element means nothing, but the driver looks at it.
std::int64_t stride_bytes(std::int64_t extent, std::int64_t stride, const HeadTensor& tensor) {
  return (extent == 1 ? std::int64_t(tensor.head_dim) : stride) * bytes_of(tensor.type);
}

}  // namespace

std::string refusal(const TensorBox& tensor) {
  if (tensor.rank < 1 || tensor.rank > 5)
    return "rank is " + std::to_string(tensor.rank) + ": it must be 1 to 5";
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (address % 16 != 0 || address == 0)
    return "data is " + std::to_string(address) + ": it must be a multiple of 16";
  const int inner = tensor.box[0] * bytes_of(tensor.type), span = swizzle_span(tensor.swizzle);
  for (int axis = 0; axis < tensor.rank; ++axis) {
    const auto i = std::size_t(axis);
    if (tensor.extents[i] < 1 || tensor.extents[i] > (std::int64_t(1) << 32))
      return sentence("extents", axis, tensor.extents[i], "1 to 2^32");
    if (tensor.box[i] < 1 || tensor.box[i] > 256)
      return sentence("box", axis, tensor.box[i], "1 to 256");
    if (axis > 0 && (tensor.strides[i] % 16 != 0 || tensor.strides[i] < 0 ||
                     tensor.strides[i] >= (std::int64_t(1) << 40)))
      return sentence("strides", axis, tensor.strides[i], "a multiple of 16 bytes below 2^40");
  }
  if (inner % 16 != 0 || inner > span)
    return sentence("box", 0, tensor.box[0],
                    "a multiple of 16 bytes, of at most " + std::to_string(span));
  return "";
}

TensorBox head_box(const HeadTensor& tensor, int rows) {
  const int group = 128 / bytes_of(tensor.type);
  const std::int64_t groups = tensor.head_dim / group;
  return {tensor.data,
          tensor.type,
          5,
          {group, tensor.length, groups, tensor.heads, tensor.batch},
          {bytes_of(tensor.type), stride_bytes(tensor.length, tensor.row_stride, tensor), 128,
           stride_bytes(tensor.heads, tensor.head_stride, tensor),
           stride_bytes(tensor.batch, tensor.batch_stride, tensor)},
          {group, rows, int(groups), 1, 1},
          SwizzleBytes::b128};
}

TensorBox column_box(const HeadTensor& tensor, int rows) {
  return {tensor.data,
          tensor.type,
          4,
          {tensor.head_dim, tensor.length, tensor.heads, tensor.batch, 0},
          {bytes_of(tensor.type), stride_bytes(tensor.length, tensor.row_stride, tensor),
           stride_bytes(tensor.heads, tensor.head_stride, tensor),
           stride_bytes(tensor.batch, tensor.batch_stride, tensor), 0},
          {128 / bytes_of(tensor.type), rows, 1, 1, 0},
          SwizzleBytes::b128};
}

}  // namespace tilefold::cuda
