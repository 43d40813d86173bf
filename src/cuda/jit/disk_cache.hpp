// Compiled kernels in a folder, one file each, for every process of a user.
//
// A file is a header (what it is, lengths, checksum), the whole key and the kernel. It is written
// under another name and renamed, so no reader sees half of one; a reader that finds anything amiss
// (cut off, changed, of another format, owned by another user) takes it for absent, and the next
// writer replaces it. Files are removed from the one that was used the longest time ago on, once
// all of them together pass the limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cuda/jit/nvrtc.hpp"

namespace tilefold::cuda::jit {

struct DiskCacheSettings {
  std::string directory;          // empty: there is none
  std::string why_none;           // then
  std::uint64_t limit_bytes = 0;  // of all files; 0: nothing is kept
};

/// TILEFOLD_CACHE_DIR, else XDG_CACHE_HOME/tilefold, else HOME/.cache/tilefold; TILEFOLD_CACHE_MB
/// (256). Throws Error(invalid_argument) where that is no number.
DiskCacheSettings disk_cache_settings();

class DiskCache {
 public:
  explicit DiskCache(DiskCacheSettings settings) : settings_(std::move(settings)) {}

  const DiskCacheSettings& settings() const { return settings_; }
  bool enabled() const { return !settings_.directory.empty() && settings_.limit_bytes > 0; }

  /// The kernel of this key, and marks its file as used now.
  std::optional<Cubin> load(const std::string& key) const;
  /// Makes the directory too, for this user alone. False where it could not be written.
  bool store(const std::string& key, const Cubin& cubin) const;

  struct Contents {
    std::uint64_t entries = 0, bytes = 0;
  };
  Contents contents() const;
  /// Removes all entries; gives what they were.
  Contents clear() const;

  /// The file of a key.
  std::string path_of(const std::string& key) const;

 private:
  void trim() const;

  DiskCacheSettings settings_;
};

}  // namespace tilefold::cuda::jit
