// Compiled kernels of a process: each is compiled once, whichever threads ask for it, and comes
// from the disk where an earlier process left it there.
//
//   const Found found = KernelCache::of_process().get(key, [&] { return compile(source); });
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "cuda/jit/disk_cache.hpp"

namespace tilefold::cuda::jit {

enum class Origin {
  compiled,
  unstored,  ///< compiled, and the next process will again: the disk cache could not be written
  memory,
  disk
};

/// `write_failures`: kernels that could not be left on the disk, each compiled again by the next
/// process.
struct CacheStatistics {
  long long compiled = 0, from_memory = 0, from_disk = 0, write_failures = 0;
  friend bool operator==(const CacheStatistics&, const CacheStatistics&) = default;
};

struct Found {
  std::shared_ptr<const Cubin> cubin;
  Origin origin;
  double seconds;  // that it took
};

class KernelCache {
 public:
  /// Of kernels in memory, the ones used last.
  static constexpr std::size_t most_in_memory = 256;

  explicit KernelCache(DiskCacheSettings settings) : disk_(std::move(settings)) {}

  /// With the settings that the environment has when it is first used. Never destroyed.
  static KernelCache& of_process();

  /// By any number of threads: those that ask for one key wait for the first of them, others do
  /// not. `key` is everything that the kernel follows from. What `compile` throws, all who wait for
  /// it get, and nothing is kept.
  Found get(const std::string& key, const std::function<Cubin()>& compile);

  CacheStatistics statistics() const;
  const DiskCache& disk() const { return disk_; }

 private:
  using Kernel = std::shared_ptr<const Cubin>;
  struct Entry {
    std::shared_future<Kernel> kernel;
    long long number, last_use;
  };

  Kernel bring(const std::string& key, const std::function<Cubin()>& compile, Origin& origin);
  void forget(const std::string& key, long long number);
  void drop_oldest();

  DiskCache disk_;
  mutable std::mutex mutex_;  // of what follows
  std::unordered_map<std::string, Entry> entries_;
  long long uses_ = 0;
  CacheStatistics statistics_;
};

}  // namespace tilefold::cuda::jit
