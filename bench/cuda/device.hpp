// What a GPU benchmark needs of a device: memory, random numbers, and honest times. No toolkit
// header.
//
//   DeviceMemory query(bytes);
//   fill_normal(query.data(), Element::float16, count, 1);
//   const QueueFigures queue = run_queue(WarmUp::three, 20, [&](int run) { ... });
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cuda/kernels/ladder/shape.cuh"

namespace tilefold::bench {

/// The device that is current, as CUDA describes it.
struct DeviceDescription {
  std::string name;  // "NVIDIA H200"
  int multiprocessors = 0, major = 0, minor = 0;
  std::int64_t l2_bytes = 0;
};

/// Throws Error(unsupported), "`who` needs a CUDA device" and the reason, where there is none.
void require_device(const std::string& who);

/// Of a device that is there.
DeviceDescription describe_device();

/// Bytes that can still be allocated.
std::size_t free_device_bytes();

/// Uninitialised memory of the current device.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Throws Error(out_of_memory).
  explicit DeviceMemory(std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  void copy_from(const void* host, std::size_t bytes);
  /// Waits for everything launched before.
  void copy_to(void* host, std::size_t bytes) const;
  /// Every bit 1: NaN in f32, f16 and bf16.
  void poison();

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// `rows` rows of `width` bytes, `pitch` bytes apart on the device, packed on the host.
void copy_rows_to_host(void* host, const void* device, std::size_t pitch, std::size_t width,
                       std::size_t rows);

/// Normal numbers, mean 0 and variance 1, the same for the same seed.
void fill_normal(void* device, cuda::ladder::Element element, std::int64_t count,
                 std::uint64_t seed);

/// Before the timed launches: nothing, or a rest for the card and then three untimed launches. Card
/// at rest, the clock is that of the kernel's own load and not of what ran before.
enum class WarmUp { none, three };

/// What launches in a queue took, and the state that they left the card in.
struct QueueFigures {
  std::vector<double> milliseconds;  // of each launch
  double clock_mhz = 0;              // of a multiprocessor, right behind the last launch
};

/// Times each of `runs` launches on the default stream. All of them are queued behind a kernel that
/// only spins, so that the host's own time stays out, and each has its own pair of events. Behind
/// the last a kernel counts the clock's cycles.
QueueFigures run_queue(WarmUp warm_up, int runs, const std::function<void(int run)>& launch);

/// The times of run_queue() alone.
inline std::vector<double> queued_milliseconds(WarmUp warm_up, int runs,
                                               const std::function<void(int run)>& launch) {
  return run_queue(warm_up, runs, launch).milliseconds;
}

/// The largest power that NVML tells while launches follow each other for 0.2 s, as many as `once`,
/// milliseconds, says: a queue that is timed ends before the sensor follows. None without NVML. The
/// card rests afterwards.
std::optional<double> sustained_watts(double once, const std::function<void(int run)>& launch);

/// Launches an empty kernel named rung_marker, by which a profiler's log is cut into rungs.
void mark_rung();

/// Waits for the device; throws Error with CUDA's words where a kernel failed.
void wait_for_device();

}  // namespace tilefold::bench
