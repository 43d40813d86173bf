// What TMA moves at once: a tensor in device memory and a box of it. Plain numbers, checked without
// a driver.
//
//   const TensorBox keys = head_box({.data = k, .type = ElementType::bf16, .head_dim = 128, ...},
//   128); const TensorMap map = encode(keys);  // runtime/tensor_map.hpp
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "cuda/tile/element_type.hpp"
#include "cuda/tile/matrix_descriptor.cuh"

namespace tilefold::cuda {

/// A tensor of 1 to 5 axes, the contiguous one first, and the box that one instruction moves.
struct TensorBox {
  const void* data = nullptr;
  ElementType type = ElementType::bf16;
  int rank = 0;
  std::array<std::int64_t, 5> extents{};  // elements
  std::array<std::int64_t, 5> strides{};  // bytes; that of axis 0 is the element's size
  std::array<int, 5> box{};               // elements
  SwizzleBytes swizzle = SwizzleBytes::b128;

  /// What a load counts at its mbarrier, elements past the tensor's end included.
  constexpr int box_bytes() const {
    int bytes = bytes_of(type);
    for (int axis = 0; axis < rank; ++axis) bytes *= box[std::size_t(axis)];
    return bytes;
  }
};

/// Why the hardware cannot take it, in one sentence: "data is ...: it must be ...". Empty where it
/// can. Limits of PTX ISA, tensors, and of cuTensorMapEncodeTiled.
std::string refusal(const TensorBox& tensor);

/// One side of attention: [batch, length, heads, head_dim], strides in elements; the last axis is
/// contiguous.
struct HeadTensor {
  const void* data = nullptr;
  ElementType type = ElementType::bf16;
  int head_dim = 0;
  std::int64_t batch = 1, length = 1, heads = 1;
  std::int64_t batch_stride = 0, row_stride = 0, head_stride = 0;
};

/// `rows` rows of a whole head in one instruction, in groups of as many columns as 128 bytes hold,
/// which must divide head_dim: axes (columns of a group, row, group, head, batch), so load_box(...,
/// {0, row, 0, head, batch}, ...). Laid out as tile/matrix_descriptor.cuh reads it.
TensorBox head_box(const HeadTensor& tensor, int rows);

/// `rows` rows of one such group of columns: axes (column, row, head, batch), any head_dim; columns
/// past the end are zeros.
TensorBox column_box(const HeadTensor& tensor, int rows);

}  // namespace tilefold::cuda
