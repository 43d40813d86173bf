#include "bench/text_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "core/files/disk_file.hpp"
#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

[[noreturn]] void refuse(const std::string& path, int error) {
  throw Error(ErrorCode::file_io, path + ": cannot be written: " + std::strerror(error));
}

// A device or a pipe, /dev/stdout say, cannot be replaced by a file.
bool is_special(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

}  // namespace

void require_writable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) refuse(path, EISDIR);
  if (!is_special(path)) {
    const files::OutputFile never_committed(path);
  } else if (::access(path.c_str(), W_OK) != 0) {
    refuse(path, errno);
  }
}

void write_text(const std::string& path, const std::string& text) {
  if (is_special(path)) {
    std::ofstream file(path, std::ios::binary);
    if (!(file << text << std::flush)) refuse(path, errno);
    return;
  }
  files::OutputFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

std::string read_text(const std::string& path) {
  const files::InputFile file(path);
  std::string text(std::size_t(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace tilefold::bench
