#include "cuda/jit/disk_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tilefold/error.hpp"

namespace tilefold::cuda::jit {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view suffix = ".kernel";
constexpr std::size_t name_length = 32 + suffix.size();

constexpr std::array<char, 16> magic{'t', 'i', 'l', 'e', 'f', 'o', 'l', 'd',
                                     ' ', 'k', 'e', 'r', 'n', 'e', 'l', '1'};

struct Header {
  std::array<char, 16> magic;
  std::uint64_t key, kernel, report, code;  // bytes that follow, in this order
  std::uint64_t checksum_high, checksum_low;
};

Hash checksum(const std::string& key, const Cubin& cubin) {
  Hash hash;
  for (const std::string* part : {&key, &cubin.kernel, &cubin.report, &cubin.code})
    hash.add(part->data(), part->size());
  return hash;
}

/// A file descriptor and its end.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool opened() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  bool read(void* bytes, std::size_t count) const {
    for (auto* at = static_cast<char*>(bytes); count > 0;) {
      const ssize_t got = ::read(descriptor_, at, count);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      count -= std::size_t(got);
    }
    return true;
  }
  bool write(const void* bytes, std::size_t count) const {
    for (const auto* at = static_cast<const char*>(bytes); count > 0;) {
      const ssize_t put = ::write(descriptor_, at, count);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return false;
      at += put;
      count -= std::size_t(put);
    }
    return true;
  }
  bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

/// Written by this user and by nobody else.
bool is_own(const struct stat& file) {
  return S_ISREG(file.st_mode) && file.st_uid == ::geteuid() &&
         (file.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool read_part(const File& file, std::string& part, std::uint64_t bytes) {
  part.resize(bytes);
  return file.read(part.data(), bytes);
}

/// The missing folders of a path, each for this user alone.
void make_folders(const fs::path& folder) {
  std::error_code ignored;
  if (folder.empty() || fs::exists(folder, ignored)) return;
  make_folders(folder.parent_path());
  ::mkdir(folder.c_str(), 0700);
}

struct Entry {
  fs::path path;
  std::uint64_t bytes;
  fs::file_time_type used;
};

/// Whether a name is an entry's, or that of one being written: the same and six characters more.
bool is_name_of_entry(const std::string& name, bool finished) {
  return name.size() == name_length + (finished ? 0 : 7) &&
         name.compare(32, suffix.size(), suffix) == 0 &&
         name.find_first_not_of("0123456789abcdef") == 32;
}

/// Other files of the folder are not ours to count or to remove.
std::vector<Entry> entries_of(const std::string& directory, bool finished) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    if (!is_name_of_entry(at->path().filename(), finished) || !fs::is_regular_file(*at, gone))
      continue;
    Entry entry{at->path(), at->file_size(gone), {}};
    if (!gone) entry.used = at->last_write_time(gone);
    if (!gone) entries.push_back(std::move(entry));
  }
  return entries;
}

/// A writer that died leaves its file: an hour later nobody is writing it.
void remove_abandoned(const std::string& directory) {
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const Entry& entry : entries_of(directory, false))
    if (entry.used < old) ::unlink(entry.path.c_str());
}

std::uint64_t limit_bytes() {
  const char* const text = secure_getenv("TILEFOLD_CACHE_MB");
  std::uint64_t megabytes = 256;
  if (text == nullptr || *text == '\0') return megabytes << 20;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, megabytes);
  if (error != std::errc() || stop != end || megabytes > 1 << 20)
    throw Error(ErrorCode::invalid_argument,
                std::string("TILEFOLD_CACHE_MB is '") + text +
                    "': it must be a whole number of megabytes from 0 to 1048576");
  return megabytes << 20;
}

}  // namespace

DiskCacheSettings disk_cache_settings() {
  const auto named = [](const char* variable) -> std::string {
    const char* const value = secure_getenv(variable);
    return value != nullptr ? value : "";
  };
  DiskCacheSettings settings{named("TILEFOLD_CACHE_DIR"), {}, limit_bytes()};
  if (!settings.directory.empty()) return settings;
  // A relative XDG_CACHE_HOME counts as none: the XDG Base Directory Specification.
  if (const std::string cache = named("XDG_CACHE_HOME"); cache.rfind('/', 0) == 0)
    settings.directory = cache + "/tilefold";
  else if (const std::string home = named("HOME"); !home.empty())
    settings.directory = home + "/.cache/tilefold";
  else
    settings.why_none = "neither TILEFOLD_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set";
  return settings;
}

std::string DiskCache::path_of(const std::string& key) const {
  return settings_.directory + "/" + Hash().add(key.data(), key.size()).text() +
         std::string(suffix);
}

std::optional<Cubin> DiskCache::load(const std::string& key) const {
  if (!enabled()) return std::nullopt;
  const File file(::open(path_of(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat found {};
  Header header{};
  if (!file.opened() || ::fstat(file.descriptor(), &found) != 0 || !is_own(found) ||
      !file.read(&header, sizeof header) || header.magic != magic || header.key != key.size())
    return std::nullopt;
  // Each alone first: their sum might wrap.
  const auto size = std::uint64_t(found.st_size);
  if (std::max({header.kernel, header.report, header.code}) > size ||
      sizeof header + header.key + header.kernel + header.report + header.code != size)
    return std::nullopt;
  std::string own_key;
  Cubin cubin;
  if (!read_part(file, own_key, header.key) || own_key != key ||
      !read_part(file, cubin.kernel, header.kernel) ||
      !read_part(file, cubin.report, header.report) || !read_part(file, cubin.code, header.code))
    return std::nullopt;
  const Hash sum = checksum(key, cubin);
  if (sum.high() != header.checksum_high || sum.low() != header.checksum_low) return std::nullopt;
  ::futimens(file.descriptor(), nullptr);
  return cubin;
}

bool DiskCache::store(const std::string& key, const Cubin& cubin) const {
  if (!enabled()) return false;
  make_folders(settings_.directory);
  const std::string path = path_of(key);
  std::string written = path + ".XXXXXX";
  File file(::mkostemp(written.data(), O_CLOEXEC));  // mode 0600
  if (!file.opened()) return false;
  const Hash sum = checksum(key, cubin);
  const Header header{
      magic,      key.size(), cubin.kernel.size(), cubin.report.size(), cubin.code.size(),
      sum.high(), sum.low()};
  bool whole = file.write(&header, sizeof header);
  for (const std::string* part : {&key, &cubin.kernel, &cubin.report, &cubin.code})
    whole = whole && file.write(part->data(), part->size());
  whole = file.close() && whole && ::rename(written.c_str(), path.c_str()) == 0;
  if (!whole) ::unlink(written.c_str());
  trim();
  return whole;
}

void DiskCache::trim() const {
  remove_abandoned(settings_.directory);
  std::vector<Entry> entries = entries_of(settings_.directory, true);
  std::uint64_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.bytes;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (bytes <= settings_.limit_bytes) return;
    ::unlink(entry.path.c_str());  // another process may have been first
    bytes -= entry.bytes;
  }
}

DiskCache::Contents DiskCache::contents() const {
  Contents all;
  if (settings_.directory.empty()) return all;
  for (const Entry& entry : entries_of(settings_.directory, true)) {
    ++all.entries;
    all.bytes += entry.bytes;
  }
  return all;
}

DiskCache::Contents DiskCache::clear() const {
  Contents removed;
  if (settings_.directory.empty()) return removed;
  for (const bool finished : {true, false})
    for (const Entry& entry : entries_of(settings_.directory, finished)) {
      if (::unlink(entry.path.c_str()) != 0 && errno != ENOENT)
        throw Error(ErrorCode::file_io,
                    entry.path.string() + " cannot be removed: " + std::strerror(errno));
      removed.entries += finished ? 1 : 0;
      removed.bytes += entry.bytes;
    }
  return removed;
}

}  // namespace tilefold::cuda::jit
