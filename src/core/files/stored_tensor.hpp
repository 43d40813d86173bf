// What a file says about one tensor, whatever its format, and the words that faults are told in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilefold/tensor_view.hpp"

namespace tilefold::files {

/// Which axis neighbours in memory belong to: the last one (C) or the first one (Fortran).
enum class AxisOrder { last_fastest, first_fastest };

/// One tensor of a file. Its bytes are [begin, begin + bytes) of the file, inside its real size.
struct StoredTensor {
  std::string name;                 // empty in .npy files
  std::string type;                 // as the file spells it: "<f4", "BF16"
  std::optional<DType> dtype;       // absent: elements that tilefold does not read
  std::vector<std::int64_t> shape;  // any rank in .safetensors files
  AxisOrder order = AxisOrder::last_fastest;
  std::uint64_t begin = 0, bytes = 0;

  /// The view of these bytes once they are in memory at `data`. Throws Error(file_format), naming
  /// `file`, when the dtype is absent or the rank is more than TensorView::max_rank.
  OutputView at(void* data, const std::string& file) const;
};

/// A tensor to be written.
struct NamedTensor {
  std::string name;
  TensorView tensor;
};

/// Free text that a .safetensors file carries under "__metadata__".
using Metadata = std::map<std::string, std::string>;

/// Bytes of a tensor of `bits`-bit elements. No value when its size in bits, or the stride of an
/// axis, would not fit an int64, or when the elements do not fill whole bytes.
std::optional<std::uint64_t> stored_bytes(std::span<const std::int64_t> shape, int bits);

/// "[2, 3]"
std::string text_of(std::span<const std::int64_t> shape);

/// Text from a file as it may stand in a message: in quotes, control bytes escaped, the length
/// bounded.
std::string quote(std::string_view text);

/// Throws Error(file_format): "<file>: <what>".
[[noreturn]] void fault(const std::string& file, const std::string& what);

/// Throws Error(file_format) where a byte is neither 0 nor 1: such a bool is undefined in C++.
void check_booleans(std::span<const std::byte> bytes, const StoredTensor& tensor,
                    const std::string& file);

}  // namespace tilefold::files
