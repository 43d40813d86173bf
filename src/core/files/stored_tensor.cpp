#include "core/files/stored_tensor.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "tilefold/error.hpp"

namespace tilefold::files {

OutputView StoredTensor::at(void* data, const std::string& file) const {
  const std::string label = name.empty() ? "the tensor" : "tensor " + quote(name);
  if (!dtype) {
    fault(file,
          label + " has elements of type " + quote(type) +
              ", which tilefold does not read: it reads F64, F32, F16, BF16, F8_E4M3, F8_E5M2, "
              "I64, I32, I8, U8 and BOOL");
  }
  if (shape.size() > std::size_t(TensorView::max_rank)) {
    fault(file, label + " has " + std::to_string(shape.size()) + " axes: tilefold takes at most " +
                    std::to_string(TensorView::max_rank));
  }
  const int rank = int(shape.size());
  const Extents extents(shape.data(), rank);
  if (order == AxisOrder::last_fastest) return OutputView(data, *dtype, extents);
  Extents strides = extents;
  std::int64_t stride = 1;
  for (int axis = 0; axis < rank; ++axis) {
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(extents[axis], 1);  // stored_bytes() has bounded this product
  }
  return OutputView(data, *dtype, extents, strides);
}

std::optional<std::uint64_t> stored_bytes(std::span<const std::int64_t> shape, int bits) {
  // An extent of 0 must not hide an overflow of the others: strides are products without it.
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max() / 8;
  std::uint64_t elements = 1;
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      empty = true;
      continue;
    }
    if (elements > most / std::uint64_t(extent)) return std::nullopt;
    elements *= std::uint64_t(extent);
  }
  if (elements > most * 8 / std::uint64_t(bits)) return std::nullopt;
  if (empty) return 0;
  const std::uint64_t total_bits = elements * std::uint64_t(bits % 8);
  if (total_bits % 8 != 0) return std::nullopt;
  return elements * std::uint64_t(bits / 8) + total_bits / 8;
}

std::string text_of(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

std::string quote(std::string_view text) {
  constexpr std::size_t most = 100;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result = "'";
  for (const char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += "\\x";
      result += digits[byte >> 4];
      result += digits[byte & 15];
    } else {
      result += c;
    }
  }
  return result + (text.size() > most ? "...'" : "'");
}

void fault(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::file_format, file + ": " + what);
}

void check_booleans(std::span<const std::byte> bytes, const StoredTensor& tensor,
                    const std::string& file) {
  if (tensor.dtype != DType::boolean) return;
  const auto bad =
      std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad == bytes.end()) return;
  const std::uint64_t position = tensor.begin + std::uint64_t(bad - bytes.begin());
  fault(file, "the boolean at byte " + std::to_string(position) + " is " +
                  std::to_string(std::to_integer<int>(*bad)) + ": it must be 0 or 1");
}

}  // namespace tilefold::files
