// The one parallel loop of the project.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace tilefold::core {

/// Threads that `wanted` stands for: itself, or all cores for 0.
int thread_count(int wanted);

/// A callable by reference, without allocation: void(std::int64_t index, int slot).
class LoopBody {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, LoopBody>) LoopBody(const F& body)
      : body_(std::addressof(body)), call_([](const void* b, std::int64_t index, int slot) {
          (*static_cast<const F*>(b))(index, slot);
        }) {}
  void operator()(std::int64_t index, int slot) const { call_(body_, index, slot); }

 private:
  const void* body_;
  void (*call_)(const void*, std::int64_t, int);
};

/// Runs body(index, slot) for every index in [0, count), each on one of `threads` threads; slot in
/// [0, threads) is that thread's own, so it may index scratch memory. Items start in ascending
/// order. With one thread nothing but the caller runs. Exceptions reach the caller.
void parallel_for(std::int64_t count, int threads, LoopBody body);

}  // namespace tilefold::core
