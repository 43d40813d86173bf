#include "core/files/disk_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "tilefold/error.hpp"

namespace tilefold::files {

namespace {

// One read or write call moves less than 2 GiB on Linux; a bound of our own keeps that explicit.
constexpr std::size_t most_bytes_a_call = std::size_t{1} << 30;

[[noreturn]] void refuse(const std::string& path, const std::string& what, int error) {
  throw Error(ErrorCode::file_io, path + ": " + what + ": " + std::strerror(error));
}

int open_retrying(const char* path, int flags, mode_t mode) {
  int number;
  do number = ::open(path, flags | O_CLOEXEC, mode);
  while (number < 0 && errno == EINTR);
  return number;
}

// A path with a NUL byte would be cut there by the system and name another file.
const std::string& checked_path(const std::string& path) {
  if (path.empty()) throw Error(ErrorCode::file_io, "the file name is empty");
  if (path.find('\0') != std::string::npos) {
    throw Error(ErrorCode::file_io, std::string(path.c_str()) + ": the file name holds a NUL byte");
  }
  return path;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Unique among the threads of this process by the count, among processes by the id; O_EXCL tells of
// leftovers.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return path + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
}

}  // namespace

int Descriptor::close() noexcept {
  const int number = std::exchange(number_, -1);
  return number < 0 ? 0 : ::close(number);
}

InputFile::InputFile(std::string path)
    : path_(std::move(path)),
      // O_NONBLOCK: opening a pipe without a writer must not wait for ever; it is refused below.
      file_(open_retrying(checked_path(path_).c_str(), O_RDONLY | O_NONBLOCK, 0)) {
  if (file_.number() < 0) refuse(path_, "cannot be opened for reading", errno);
  struct stat status;
  if (::fstat(file_.number(), &status) != 0) refuse(path_, "cannot be examined", errno);
  if (S_ISDIR(status.st_mode)) refuse(path_, "cannot be read", EISDIR);
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::file_io, path_ + ": not a regular file");
  size_ = std::uint64_t(status.st_size);
}

void InputFile::read(std::uint64_t begin, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file_.number(), bytes.data(),
                                std::min(bytes.size(), most_bytes_a_call), off_t(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path_, "cannot be read at byte " + std::to_string(begin), errno);
    if (got == 0) {
      throw Error(
          ErrorCode::file_io,
          path_ + ": became shorter while it was read: it ends at byte " + std::to_string(begin));
    }
    begin += std::uint64_t(got);
    bytes = bytes.subspan(std::size_t(got));
  }
}

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)),
      temporary_(temporary_name(checked_path(path_))),
      file_(open_retrying(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666)) {
  if (file_.number() >= 0) return;
  const int error = errno;
  refuse(path_, "cannot be written: the temporary file " + temporary_ + " cannot be made", error);
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put =
        ::write(file_.number(), bytes.data(), std::min(bytes.size(), most_bytes_a_call));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) refuse(path_, "cannot be written", errno);
    bytes = bytes.subspan(std::size_t(put));
  }
}

void OutputFile::commit() {
  if (::fsync(file_.number()) != 0) refuse(path_, "cannot be brought to the disk", errno);
  if (file_.close() != 0) refuse(path_, "cannot be closed", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    refuse(path_, "cannot be given its name", errno);
  }
  temporary_.clear();
  // The name itself lives in the directory. Some file systems refuse this fsync: the file is whole
  // either way, so a refusal is no failure.
  const Descriptor directory(open_retrying(directory_of(path_).c_str(), O_RDONLY, 0));
  if (directory.number() >= 0) ::fsync(directory.number());
}

}  // namespace tilefold::files
