// The most memory that a call takes above what the process holds already.
//
//   std::optional<std::int64_t> bytes = peak_above([&] { plan.run(tensors); });
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace tilefold::bench {

/// Resets the kernel's high-water mark of this process (/proc/self/clear_refs), calls, and reads
/// the mark: bytes above the resident memory of before. Inputs and outputs that have been written
/// are not counted; memory that the call maps and releases is. No value where the mark cannot be
/// reset.
///
/// Not a forked child: a fork keeps one thread of the pool, and a thread pool without its threads
/// waits for ever.
std::optional<std::int64_t> peak_above(const std::function<void()>& call);

/// MemAvailable of the machine, bytes; no value where it is not told.
std::optional<std::int64_t> available_memory();

}  // namespace tilefold::bench
