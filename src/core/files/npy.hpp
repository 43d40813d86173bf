// NumPy's .npy format, versions 1.0, 2.0 and 3.0: one array, described by a Python dictionary.
//
//   bytes 0-5   "\x93NUMPY"
//   bytes 6-7   version, major and minor
//   then        header length: u16 (1.0) or u32 (2.0, 3.0), little endian
//   then        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", spaces, a newline
//   then        the elements
//
// Source: numpy/lib/format.py (NEP 1). Read: f8 f4 f2 i8 i4 i1 u1 b1, little endian, both axis
// orders. Refused: big endian, structured and object arrays, and raw bytes ("V2"): NumPy writes
// bfloat16 and fp8 that way, and nothing in the file tells which of them it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/files/stored_tensor.hpp"

namespace tilefold::files {

/// Bytes that tell where the header ends.
inline constexpr std::size_t npy_prefix_bytes = 12;

/// Where the header of a file ends and its elements begin. `prefix` is the file's first
/// npy_prefix_bytes bytes, or all of a shorter file. Throws Error(file_format) for another magic
/// number or version, and for a header past the end of the file.
std::uint64_t npy_data_begin(std::span<const std::byte> prefix, std::uint64_t file_size,
                             const std::string& file);

/// Reads the description in `head`, the file's bytes up to npy_data_begin() or more; `file` is its
/// name for messages. Throws Error(file_format) for everything that is not a readable array, and
/// when file_size is not what the description asks for.
StoredTensor parse_npy(std::span<const std::byte> head, std::uint64_t file_size,
                       const std::string& file);
/// The same for a file that is in memory as a whole.
StoredTensor parse_npy(std::span<const std::byte> whole, const std::string& file);

/// All bytes that stand before the elements (C order, version 1.0); a multiple of 64.
/// Throws Error(file_format) for bf16 and fp8, which have no code in .npy.
std::string npy_preamble(DType dtype, const Extents& shape, const std::string& file);

}  // namespace tilefold::files
