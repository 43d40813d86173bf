#include "cuda/jit/cache.hpp"

#include <algorithm>
#include <chrono>

namespace tilefold::cuda::jit {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

KernelCache& KernelCache::of_process() {
  static KernelCache& cache = *new KernelCache(disk_cache_settings());
  return cache;
}

Found KernelCache::get(const std::string& key, const std::function<Cubin()>& compile) {
  const Clock::time_point begin = Clock::now();
  std::promise<Kernel> promise;
  std::shared_future<Kernel> wanted;
  long long number = 0;  // of an entry of ours
  {
    const std::lock_guard lock(mutex_);
    const auto at = entries_.find(key);
    if (at != entries_.end()) {
      at->second.last_use = ++uses_;
      wanted = at->second.kernel;
    } else {
      number = ++uses_;
      entries_.emplace(key, Entry{promise.get_future().share(), number, number});
      drop_oldest();
    }
  }
  if (number == 0) {
    Kernel kernel = wanted.get();
    const std::lock_guard lock(mutex_);
    ++statistics_.from_memory;
    return {std::move(kernel), Origin::memory, seconds_since(begin)};
  }
  try {
    Origin origin{};
    Kernel kernel = bring(key, compile, origin);
    promise.set_value(kernel);
    return {std::move(kernel), origin, seconds_since(begin)};
  } catch (...) {
    forget(key, number);
    promise.set_exception(std::current_exception());
    throw;
  }
}

KernelCache::Kernel KernelCache::bring(const std::string& key,
                                       const std::function<Cubin()>& compile, Origin& origin) {
  if (std::optional<Cubin> found = disk_.load(key)) {
    origin = Origin::disk;
    const std::lock_guard lock(mutex_);
    ++statistics_.from_disk;
    return std::make_shared<const Cubin>(std::move(*found));
  }
  origin = Origin::compiled;
  Kernel kernel = std::make_shared<const Cubin>(compile());
  // A limit of 0 is a wish, not a failure.
  const bool stored = disk_.settings().limit_bytes == 0 || disk_.store(key, *kernel);
  const std::lock_guard lock(mutex_);
  ++statistics_.compiled;
  statistics_.write_failures += stored ? 0 : 1;
  if (!stored) origin = Origin::unstored;
  return kernel;
}

/// Another entry of the key, made since, stays.
void KernelCache::forget(const std::string& key, long long number) {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(key);
  if (at != entries_.end() && at->second.number == number) entries_.erase(at);
}

/// Whoever waits for one that is dropped holds its future.
void KernelCache::drop_oldest() {
  if (entries_.size() <= most_in_memory) return;
  const auto oldest = std::min_element(
      entries_.begin(), entries_.end(),
      [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; });
  entries_.erase(oldest);
}

CacheStatistics KernelCache::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace tilefold::cuda::jit
