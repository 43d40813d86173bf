// Independent work on several threads, its results taken in order.
//
//   in_order<double>(100, 8, [](int i) { return slow(i); }, [&](int i, double& x) { print(i, x);
//   });
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tilefold::testing {

/// Threads that `wanted` stands for: itself, or all cores for 0.
inline int worker_count(int wanted) {
  return wanted > 0 ? wanted : std::max(1, int(std::thread::hardware_concurrency()));
}

/// compute(i) for each i in [0, count) on `workers` threads; take(i, result) once each, in
/// ascending order, never two at a time. The first exception of either ends the work and reaches
/// the caller.
template <class Result, class Compute, class Take>
void in_order(int count, int workers, const Compute& compute, const Take& take) {
  std::vector<std::optional<Result>> results(static_cast<std::size_t>(count));
  std::mutex lock;
  std::exception_ptr fault;
  std::atomic<int> next{0};
  int taken = 0;
  const auto work = [&] {
    for (int i = next++; i < count; i = next++) {
      try {
        Result result = compute(i);
        const std::lock_guard<std::mutex> guard(lock);
        results[std::size_t(i)] = std::move(result);
        for (; taken < count && results[std::size_t(taken)]; ++taken) {
          take(taken, *results[std::size_t(taken)]);
          results[std::size_t(taken)].reset();
        }
      } catch (...) {
        const std::lock_guard<std::mutex> guard(lock);
        if (!fault) fault = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int w = 1; w < std::min(workers, count); ++w) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (fault) std::rethrow_exception(fault);
}

}  // namespace tilefold::testing
