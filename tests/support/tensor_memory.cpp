// Poisoned buffers and element access.
#include "support/tensor_memory.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "reference/attention.hpp"
#include "tilefold/error.hpp"

namespace tilefold::testing {

namespace {
constexpr std::size_t guard_bytes = 256, alignment = 64;
}

Buffer::Buffer(std::size_t bytes)
    : storage_(bytes + 2 * guard_bytes + alignment, poison), begin_(guard_bytes), size_(bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data() + guard_bytes);
  begin_ += (alignment - address % alignment) % alignment;
}

void Buffer::poison_all() { std::fill(storage_.begin(), storage_.end(), poison); }

OutputView TensorMemory::allocate(DType dtype, const Extents& shape, const MemoryLayout& layout) {
  std::vector<int> order = layout.order;
  if (order.empty()) {
    order.resize(std::size_t(shape.size()));
    std::iota(order.begin(), order.end(), 0);
  }
  Extents strides = shape;
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= std::max<std::int64_t>(1, shape[order[i]]);
    if (i + 1 == order.size()) step += layout.padding;
  }
  const std::size_t bytes = std::size_t((step + layout.offset) * bytes_of(dtype));
  buffers_.push_back(std::make_shared<Buffer>(bytes));
  return OutputView(buffers_.back()->data() + layout.offset * bytes_of(dtype), dtype, shape,
                    strides);
}

Buffer& TensorMemory::buffer_of(const TensorView& tensor) {
  const auto* at = static_cast<const unsigned char*>(tensor.data());
  for (const auto& buffer : buffers_)
    if (buffer->data() <= at && at <= buffer->data() + buffer->size()) return *buffer;
  throw Error(ErrorCode::invalid_argument, "tensor: it must lie in this memory");
}

std::int64_t offset_of(const TensorView& tensor, std::int64_t index) {
  std::int64_t offset = 0;
  for (int axis = tensor.rank() - 1; axis >= 0; --axis) {
    offset += index % tensor.dim(axis) * tensor.stride(axis);
    index /= tensor.dim(axis);
  }
  return offset;
}

void store_at(const OutputView& tensor, std::int64_t at, double value) {
  switch (tensor.dtype()) {
    case DType::f64: tensor.as<double>()[at] = value; return;
    case DType::f32: tensor.as<float>()[at] = float(value); return;
    case DType::f16: tensor.as<float16>()[at] = round_to<float16>(float(value)); return;
    case DType::bf16: tensor.as<bfloat16>()[at] = round_to<bfloat16>(float(value)); return;
    case DType::e4m3: tensor.as<float8_e4m3>()[at] = round_to<float8_e4m3>(float(value)); return;
    case DType::e5m2: tensor.as<float8_e5m2>()[at] = round_to<float8_e5m2>(float(value)); return;
    case DType::i64: tensor.as<std::int64_t>()[at] = std::int64_t(value); return;
    case DType::i32: tensor.as<std::int32_t>()[at] = std::int32_t(value); return;
    case DType::i8: tensor.as<std::int8_t>()[at] = std::int8_t(value); return;
    case DType::u8: tensor.as<std::uint8_t>()[at] = std::uint8_t(value); return;
    case DType::boolean: tensor.as<bool>()[at] = value != 0; return;
  }
}

double load(const TensorView& tensor, std::int64_t index) {
  const std::int64_t at = offset_of(tensor, index);
  switch (tensor.dtype()) {
    case DType::i64: return double(tensor.as<std::int64_t>()[at]);
    case DType::i32: return double(tensor.as<std::int32_t>()[at]);
    default: return reference::element(tensor, at);
  }
}

std::vector<unsigned char> packed_bytes(const TensorView& tensor) {
  const std::size_t width = std::size_t(bytes_of(tensor.dtype()));
  std::vector<unsigned char> bytes(width * std::size_t(tensor.element_count()));
  const auto* data = static_cast<const unsigned char*>(tensor.data());
  for (std::int64_t i = 0; i < tensor.element_count(); ++i)
    std::memcpy(bytes.data() + std::size_t(i) * width,
                data + offset_of(tensor, i) * std::int64_t(width), width);
  return bytes;
}

std::int64_t changed_outside(Buffer& buffer, const std::vector<unsigned char>& before,
                             const TensorView& tensor) {
  std::vector<unsigned char> expected = before;
  const std::int64_t width = bytes_of(tensor.dtype());
  const std::int64_t first =
      static_cast<const unsigned char*>(tensor.data()) - buffer.bytes().data();
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    const std::int64_t at = first + offset_of(tensor, i) * width;
    std::copy_n(buffer.bytes().begin() + at, width, expected.begin() + at);
  }
  const auto [was, is] = std::mismatch(expected.begin(), expected.end(), buffer.bytes().begin());
  (void)is;
  return was == expected.end() ? unchanged : was - expected.begin() - std::int64_t(buffer.begin());
}

}  // namespace tilefold::testing
