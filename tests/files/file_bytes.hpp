// Files of the tests: hostile bytes in memory, files in a directory of one test, and refusals.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>

#include "tilefold/error.hpp"

namespace tilefold::files {

inline std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// `count` bytes of a little-endian number.
inline std::string little_endian(std::uint64_t value, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += char((value >> (8 * i)) & 0xff);
  return text;
}

/// A whole .safetensors file.
inline std::string safetensors_file(const std::string& header, const std::string& data) {
  return little_endian(header.size(), 8) + header + data;
}

/// A whole .npy file, version 1.0.
inline std::string npy_file(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\x00", 8) + little_endian(header.size(), 2) + header + data;
}

/// A file that NumPy or the safetensors library wrote; see data/make_data.py.
inline std::string fixture(const std::string& name) {
  return std::string(TILEFOLD_SOURCE_DIR) + "/tests/files/data/" + name;
}

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs `call`; it must throw an Error of this code whose text holds `part`.
template <class Call>
void expect_refusal(ErrorCode code, const std::string& part, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr(part));
    return;
  }
  ADD_FAILURE() << "not refused; expected: " << part;
}

/// A directory that lives as long as the test.
class TemporaryDirectory {
 public:
  TemporaryDirectory()
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("tilefold_files_" + std::to_string(std::random_device{}()))) {
    std::filesystem::create_directory(path_);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return *this / name;
  }
  std::ptrdiff_t file_count() const {
    return std::distance(std::filesystem::directory_iterator(path_), {});
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tilefold::files
