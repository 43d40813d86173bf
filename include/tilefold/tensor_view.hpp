// A tensor that somebody else owns: pointer, dtype, shape, strides, device.
//
//   std::vector<float> q(2 * 128 * 8 * 64);
//   tilefold::TensorView query(q.data(), {2, 128, 8, 64});               // contiguous [B, S, H, D]
//   tilefold::TensorView value = key.slice(3, 0, 512);                    // V as a view of K
//   tilefold::OutputView out(o.data(), {2, 128, 8, 64});                  // never from const
//   memory
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "tilefold/dtype.hpp"

namespace tilefold {

/// Where a tensor's memory is.
struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index = 0) { return {Kind::cuda, index}; }
  friend constexpr bool operator==(Device, Device) = default;
};
/// "cpu" or "cuda:0".
std::string to_string(Device device);

/// Extents or strides of up to TensorView::max_rank axes.
class Extents {
 public:
  static constexpr int max_rank = 6;
  Extents() = default;
  /// Throws Error(shape_mismatch) for more than max_rank entries.
  Extents(std::initializer_list<std::int64_t> values);
  Extents(const std::int64_t* values, int count);

  int size() const noexcept { return size_; }
  std::int64_t operator[](int axis) const noexcept { return values_[std::size_t(axis)]; }
  std::int64_t& operator[](int axis) noexcept { return values_[std::size_t(axis)]; }
  const std::int64_t* begin() const noexcept { return values_.data(); }
  const std::int64_t* end() const noexcept { return values_.data() + size_; }
  friend bool operator==(const Extents&, const Extents&) = default;

 private:
  std::array<std::int64_t, max_rank> values_{};  // entries past size_ stay 0
  int size_ = 0;
};

/// A read-only view of a strided tensor. Copying it copies no data. The default view is absent:
/// rank 0, no data. A view with a shape and a null pointer is a description, which plan() takes.
class TensorView {
 public:
  static constexpr int max_rank = Extents::max_rank;

  TensorView() = default;
  /// Strides count elements; without strides the tensor is contiguous, last axis fastest.
  /// Throws Error(shape_mismatch) for negative extents or for strides of another rank.
  TensorView(const void* data, DType dtype, const Extents& shape, Device device = {});
  TensorView(const void* data, DType dtype, const Extents& shape, const Extents& strides,
             Device device = {});
  template <Element T> TensorView(const T* data, const Extents& shape)
      : TensorView(data, dtype_of_type<T>::value, shape) {}
  template <Element T> TensorView(const T* data, const Extents& shape, const Extents& strides)
      : TensorView(data, dtype_of_type<T>::value, shape, strides) {}

  bool present() const noexcept { return present_; }
  explicit operator bool() const noexcept { return present_; }
  const void* data() const noexcept { return data_; }
  DType dtype() const noexcept { return dtype_; }
  Device device() const noexcept { return device_; }
  int rank() const noexcept { return shape_.size(); }
  const Extents& shape() const noexcept { return shape_; }
  const Extents& strides() const noexcept { return strides_; }
  std::int64_t dim(int axis) const noexcept { return shape_[axis]; }
  /// Elements between neighbours along an axis; 0 for an axis of extent 1, whose stride means
  /// nothing.
  std::int64_t stride(int axis) const noexcept { return shape_[axis] == 1 ? 0 : strides_[axis]; }
  std::int64_t element_count() const noexcept;
  bool empty() const noexcept { return element_count() == 0; }
  bool contiguous() const noexcept;

  /// The typed pointer. Throws Error(dtype_mismatch) when T is not the dtype.
  template <Element T> const T* as() const {
    require_dtype(dtype_of_type<T>::value);
    return static_cast<const T*>(data_);
  }

  /// The part [begin, end) of an axis. Throws Error(shape_mismatch) outside the extent.
  TensorView slice(int axis, std::int64_t begin, std::int64_t end) const;
  /// Two axes exchanged.
  TensorView transposed(int a, int b) const;
  /// The same description with another pointer.
  TensorView with_data(const void* data) const noexcept;

  /// Bytes from data() that the view may touch: [first, last). {0, 0} when empty.
  struct ByteSpan {
    std::int64_t first, last;
  };
  ByteSpan byte_span() const noexcept;

  /// "bf16 [2, 128, 8, 64]", with strides where they are not contiguous.
  std::string to_string() const;

 protected:
  void require_dtype(DType wanted) const;

  const void* data_ = nullptr;
  Extents shape_, strides_;
  Device device_;
  DType dtype_ = DType::f32;
  bool present_ = false;
};

/// A view that may be written: it cannot be made from const memory.
class OutputView : public TensorView {
 public:
  OutputView() = default;
  OutputView(void* data, DType dtype, const Extents& shape, Device device = {})
      : TensorView(data, dtype, shape, device) {}
  OutputView(void* data, DType dtype, const Extents& shape, const Extents& strides,
             Device device = {})
      : TensorView(data, dtype, shape, strides, device) {}
  template <Element T>
  requires(!std::is_const_v<T>) OutputView(T* data, const Extents& shape)
      : TensorView(data, shape) {}
  template <Element T>
  requires(!std::is_const_v<T>) OutputView(T* data, const Extents& shape, const Extents& strides)
      : TensorView(data, shape, strides) {}

  void* data() const noexcept {
    return const_cast<void*>(data_);
  }  // made from a pointer to non-const
  template <Element T> T* as() const {
    require_dtype(dtype_of_type<T>::value);
    return static_cast<T*>(data());
  }
};

}  // namespace tilefold
