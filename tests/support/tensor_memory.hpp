// Memory for tests: every byte that no tensor element covers is poison, and stays checkable.
//
//   TensorMemory memory;
//   OutputView q = memory.allocate(DType::bf16, {2, 5, 4, 64}, MemoryLayout{.padding = 3});
//   store(q, flat_index, 0.5);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tilefold/tensor_view.hpp"

namespace tilefold::testing {

/// How a tensor lies in its buffer.
struct MemoryLayout {
  std::vector<int> order;    ///< axes from slowest to fastest; empty: as they stand
  std::int64_t padding = 0;  ///< unused elements after each run of the fastest axis
  std::int64_t offset = 0;   ///< unused elements before the first
};

/// 0xff in every byte: NaN in each floating-point type, -1 in each integer.
inline constexpr unsigned char poison = 0xff;

/// A buffer aligned to 64 bytes, poisoned, with guard bytes on both sides.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  unsigned char* data() { return storage_.data() + begin_; }
  std::size_t size() const { return size_; }
  void poison_all();
  /// Every byte, guards included.
  const std::vector<unsigned char>& bytes() const { return storage_; }
  std::size_t begin() const { return begin_; }

 private:
  std::vector<unsigned char> storage_;
  std::size_t begin_, size_;
};

/// Owns buffers; copies share them.
class TensorMemory {
 public:
  /// A poisoned tensor. The last axis is contiguous unless `order` says otherwise.
  OutputView allocate(DType dtype, const Extents& shape, const MemoryLayout& layout = {});
  /// The buffer that a tensor's first element lies in.
  Buffer& buffer_of(const TensorView& tensor);

 private:
  std::vector<std::shared_ptr<Buffer>> buffers_;
};

/// Offset in elements of the `index`-th element in row-major order.
std::int64_t offset_of(const TensorView& tensor, std::int64_t index);

/// Writes one element, rounded to the dtype; integers are cast.
void store_at(const OutputView& tensor, std::int64_t offset, double value);
inline void store(const OutputView& tensor, std::int64_t index, double value) {
  store_at(tensor, offset_of(tensor, index), value);
}
/// Reads the `index`-th element in row-major order.
double load(const TensorView& tensor, std::int64_t index);

/// The elements in row-major order, byte by byte.
std::vector<unsigned char> packed_bytes(const TensorView& tensor);

inline constexpr std::int64_t unchanged = INT64_MIN;

/// The first byte that changed since `before` outside the tensor's elements, counted from the
/// buffer's data (negative: in the guard before it); `unchanged` where none did.
std::int64_t changed_outside(Buffer& buffer, const std::vector<unsigned char>& before,
                             const TensorView& tensor);

}  // namespace tilefold::testing
