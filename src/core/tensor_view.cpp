#include "tilefold/tensor_view.hpp"

#include "tilefold/error.hpp"

namespace tilefold {

namespace {

std::string list(const Extents& extents) {
  std::string text = "[";
  for (int axis = 0; axis < extents.size(); ++axis)
    text += (axis ? ", " : "") + std::to_string(extents[axis]);
  return text + "]";
}

Extents contiguous_strides(const Extents& shape) {
  Extents strides = shape;
  std::int64_t step = 1;
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    strides[axis] = step;
    // An empty tensor has no element to step over; its strides stay those of extent 1. A shape
    // whose size passes int64 is refused when it is used, not here: the step then only has to be
    // defined.
    if (shape[axis] > 0 && __builtin_mul_overflow(step, shape[axis], &step)) step = 0;
  }
  return strides;
}

}  // namespace

std::string to_string(Device device) {
  return device.kind == Device::Kind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

Extents::Extents(std::initializer_list<std::int64_t> values)
    : Extents(values.begin(), int(values.size())) {}

Extents::Extents(const std::int64_t* values, int count) : size_(count) {
  if (count < 0 || count > max_rank)
    throw Error(ErrorCode::shape_mismatch, "a tensor has " + std::to_string(count) +
                                               " axes: at most " + std::to_string(max_rank) +
                                               " are supported");
  for (int axis = 0; axis < count; ++axis) values_[std::size_t(axis)] = values[axis];
}

TensorView::TensorView(const void* data, DType dtype, const Extents& shape, Device device)
    : TensorView(data, dtype, shape, contiguous_strides(shape), device) {}

TensorView::TensorView(const void* data, DType dtype, const Extents& shape, const Extents& strides,
                       Device device)
    : data_(data),
      shape_(shape),
      strides_(strides),
      device_(device),
      dtype_(dtype),
      present_(true) {
  if (shape.size() != strides.size())
    throw Error(ErrorCode::shape_mismatch, "strides " + list(strides) + " do not fit shape " +
                                               list(shape) + ": one stride an axis is needed");
  for (const std::int64_t extent : shape)
    if (extent < 0)
      throw Error(ErrorCode::shape_mismatch,
                  "shape " + list(shape) + " has a negative extent: extents are 0 or more");
}

std::int64_t TensorView::element_count() const noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape_)
    if (extent == 0) return 0;
  for (const std::int64_t extent : shape_)
    if (__builtin_mul_overflow(count, extent, &count)) return INT64_MAX;
  return present_ ? count : 0;
}

bool TensorView::contiguous() const noexcept {
  if (empty()) return true;
  std::int64_t step = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    if (dim(axis) != 1 && strides_[axis] != step) return false;
    step *= dim(axis);
  }
  return true;
}

TensorView TensorView::slice(int axis, std::int64_t begin, std::int64_t end) const {
  if (axis < 0 || axis >= rank() || begin < 0 || begin > end || end > dim(axis))
    throw Error(ErrorCode::shape_mismatch, "slice [" + std::to_string(begin) + ", " +
                                               std::to_string(end) + ") of axis " +
                                               std::to_string(axis) + " is outside " + to_string());
  TensorView part = *this;
  part.shape_[axis] = end - begin;
  if (data_ != nullptr && !part.empty())
    part.data_ = static_cast<const char*>(data_) + begin * strides_[axis] * bytes_of(dtype_);
  return part;
}

TensorView TensorView::transposed(int a, int b) const {
  if (a < 0 || b < 0 || a >= rank() || b >= rank())
    throw Error(ErrorCode::shape_mismatch, "axes " + std::to_string(a) + " and " +
                                               std::to_string(b) + " are not both in " +
                                               to_string());
  TensorView turned = *this;
  std::swap(turned.shape_[a], turned.shape_[b]);
  std::swap(turned.strides_[a], turned.strides_[b]);
  return turned;
}

TensorView TensorView::with_data(const void* data) const noexcept {
  TensorView moved = *this;
  moved.data_ = data;
  return moved;
}

TensorView::ByteSpan TensorView::byte_span() const noexcept {
  if (empty()) return {0, 0};
  // Modulo 2^64, as addresses count: strides may be anything, and plan() asks before run() does.
  std::uint64_t first = 0, last = 0;
  for (int axis = 0; axis < rank(); ++axis) {
    const std::uint64_t reach = std::uint64_t(stride(axis)) * std::uint64_t(dim(axis) - 1);
    (stride(axis) < 0 ? first : last) += reach;
  }
  const auto bytes = std::uint64_t(bytes_of(dtype_));
  return {std::int64_t(first * bytes), std::int64_t((last + 1) * bytes)};
}

std::string TensorView::to_string() const {
  if (!present_) return "absent";
  std::string text = std::string(name(dtype_)) + " " + list(shape_);
  if (!contiguous()) text += " strides " + list(strides_);
  if (device_ != Device::cpu()) text += " on " + tilefold::to_string(device_);
  return text;
}

void TensorView::require_dtype(DType wanted) const {
  if (dtype_ != wanted)
    throw Error(ErrorCode::dtype_mismatch,
                "the tensor is " + to_string() + ": it was read as " + std::string(name(wanted)));
}

}  // namespace tilefold
