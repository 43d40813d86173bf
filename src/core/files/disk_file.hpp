// Files on disk: reading at any position, and writing that shows either the whole file or none of
// it.
//
// Every failure is an Error(file_io) that names the file and what the system said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tilefold::files {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int number() const noexcept { return number_; }
  /// 0, or -1 with errno set: a full disk may be told of as late as here.
  int close() noexcept;

 private:
  int number_ = -1;
};

/// A regular file that is read.
class InputFile {
 public:
  explicit InputFile(std::string path);
  const std::string& path() const noexcept { return path_; }
  /// Bytes of the file when it was opened.
  std::uint64_t size() const noexcept { return size_; }
  /// Fills `bytes` from position `begin`. A file that has become shorter is an Error.
  void read(std::uint64_t begin, std::span<std::byte> bytes) const;

 private:
  std::string path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

/// A file that appears under its name only when commit() has brought all of it to the disk. Until
/// then the bytes stand in a temporary file of the same directory, which the destructor removes.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();
  void write(std::span<const std::byte> bytes);
  /// fsync and rename. Nothing may be written afterwards.
  void commit();

 private:
  std::string path_, temporary_;  // temporary_ is empty once there is nothing to remove
  Descriptor file_;
};

}  // namespace tilefold::files
