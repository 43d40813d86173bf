#include "core/parallel_for.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#ifdef TILEFOLD_THREADS_TBB
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#else
#include <vector>
#endif

namespace tilefold::core {

int thread_count(int wanted) {
  if (wanted > 0) return wanted;
  return std::max(1, int(std::thread::hardware_concurrency()));
}

namespace {

// Items are taken one at a time from a counter: they start in ascending order, which is the
// schedule's longest-first order, and a slow item delays nobody.
struct Loop {
  std::int64_t count;
  LoopBody body;
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;

  void work(int slot) noexcept {
    try {
      for (std::int64_t i = next++; i < count; i = next++) body(i, slot);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failure_mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  }
};

}  // namespace

void parallel_for(std::int64_t count, int threads, LoopBody body) {
  threads = int(std::min<std::int64_t>(threads, count));
  if (threads <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  Loop loop{count, body, {}, {}, {}};
#ifdef TILEFOLD_THREADS_TBB
  // One task a slot. The simple partitioner with grain 1 never merges two slots into one task, and
  // a slot that no thread picks up in time finds the counter exhausted: correct with fewer threads
  // too.
  tbb::task_arena arena(std::min(threads, tbb::info::default_concurrency()));
  arena.execute([&] {
    tbb::parallel_for(
        0, threads, 1, [&](int slot) { loop.work(slot); }, tbb::simple_partitioner{});
  });
#else
  std::vector<std::thread> team;
  for (int slot = 1; slot < threads; ++slot) team.emplace_back([&loop, slot] { loop.work(slot); });
  loop.work(0);
  for (std::thread& member : team) member.join();
#endif
  if (loop.failure) std::rethrow_exception(loop.failure);
}

}  // namespace tilefold::core
