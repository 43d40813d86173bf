// The .safetensors format: named tensors behind one JSON header.
//
//   bytes 0-7   N, the header's length, u64 little endian, at most 100'000'000
//   then        N bytes of JSON, padded with spaces:
//               {"q": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, ...,
//                "__metadata__": {"any": "text"}}
//   then        the elements, C order; data_offsets count from here and leave no byte out
//
// Source: https://github.com/huggingface/safetensors, "Format". Tensors of types that tilefold does
// not read are listed, and refused when they are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/files/stored_tensor.hpp"

namespace tilefold::files {

/// Bytes that tell where the header ends.
inline constexpr std::size_t safetensors_prefix_bytes = 8;

struct SafetensorsIndex {
  std::vector<StoredTensor> tensors;  // in the header's order
  Metadata metadata;
};

/// Where the header of a file ends and its elements begin. `prefix` is the file's first 8 bytes, or
/// all of a shorter file. Throws Error(file_format) for a length past the bound or the file's end.
std::uint64_t safetensors_data_begin(std::span<const std::byte> prefix, std::uint64_t file_size,
                                     const std::string& file);

/// Reads the header in `head`, the file's bytes up to safetensors_data_begin() or more; `file` is
/// its name for messages. Throws Error(file_format) for everything the format forbids: JSON that is
/// no such header, names that stand twice, sizes that are not those of the shape, overlaps and
/// gaps.
SafetensorsIndex parse_safetensors(std::span<const std::byte> head, std::uint64_t file_size,
                                   const std::string& file);
/// The same for a file that is in memory as a whole.
SafetensorsIndex parse_safetensors(std::span<const std::byte> whole, const std::string& file);

/// A file to be written: `preamble`, then the elements of the tensors, C order, in this order.
struct SafetensorsPlan {
  std::string preamble;            // a multiple of 64 bytes
  std::vector<std::size_t> order;  // wide elements first, which keeps every tensor aligned
};
/// Throws Error(file_format) for names that are empty, stand twice, hold a NUL byte, are
/// "__metadata__" or are not UTF-8.
SafetensorsPlan plan_safetensors(std::span<const NamedTensor> tensors, const Metadata& metadata,
                                 const std::string& file);

}  // namespace tilefold::files
