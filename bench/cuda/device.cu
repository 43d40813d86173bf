// bench/cuda/device.hpp over the CUDA runtime.
#include "bench/cuda/device.hpp"

#include <utility>

#include "cuda/runtime/check.hpp"
#include "cuda/runtime/device.hpp"
#include "cuda/tile/element.cuh"
#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

using cuda::require_success;
using cuda::ladder::Element;

__global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

__global__ void rung_marker() {}

// splitmix64 of the index, as tests/support/random.hpp draws them.
__device__ unsigned long long mixed(unsigned long long index) {
  unsigned long long z = index * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

__global__ void write_normal(void* data, Element element, long long count,
                             unsigned long long seed) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const unsigned long long bits = mixed(seed + (unsigned long long)i + 1);
    const float uniform = (float(unsigned(bits >> 40)) + 0.5f) * 0x1p-24f;
    const float angle = float(unsigned(bits & 0xffffff)) * 0x1p-24f * 6.2831853f;
    const float normal = sqrtf(-2 * logf(uniform)) * cosf(angle);
    if (element == Element::float32)
      static_cast<float*>(data)[i] = normal;
    else
      static_cast<unsigned short*>(data)[i] = element == Element::float16
                                                  ? cuda::element::narrow_f16(normal)
                                                  : cuda::element::narrow_bf16(normal);
  }
}

/// Pairs of events, destroyed whatever happens between.
class EventPairs {
 public:
  explicit EventPairs(int count) : events_(2 * std::size_t(count)) {
    for (cudaEvent_t& event : events_)
      require_success(cudaEventCreate(&event), "creating an event");
  }
  ~EventPairs() {
    for (cudaEvent_t event : events_)
      if (event != nullptr) cudaEventDestroy(event);
  }
  EventPairs(const EventPairs&) = delete;
  EventPairs& operator=(const EventPairs&) = delete;

  void start(int pair) {
    require_success(cudaEventRecord(events_[2 * std::size_t(pair)]), "recording an event");
  }
  void stop(int pair) {
    require_success(cudaEventRecord(events_[2 * std::size_t(pair) + 1]), "recording an event");
  }
  double milliseconds(int pair) const {
    float elapsed = 0;
    require_success(cudaEventElapsedTime(&elapsed, events_[2 * std::size_t(pair)],
                                         events_[2 * std::size_t(pair) + 1]),
                    "reading an event");
    return elapsed;
  }

 private:
  std::vector<cudaEvent_t> events_;
};

}  // namespace

DeviceDescription describe_device() {
  if (const std::string& absence = cuda::device_report().absence; !absence.empty())
    throw Error(ErrorCode::unsupported, "the ladder needs a CUDA device: " + absence);
  int device = 0;
  cudaDeviceProp properties;
  require_success(cudaGetDevice(&device), "asking for the current device");
  require_success(cudaGetDeviceProperties(&properties, device),
                  "asking for the device's properties");
  return {properties.name, properties.multiProcessorCount, properties.major, properties.minor,
          properties.l2CacheSize};
}

std::size_t free_device_bytes() {
  std::size_t available = 0, total = 0;
  require_success(cudaMemGetInfo(&available, &total), "asking for free memory");
  return available;
}

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes > 0) require_success(cudaMalloc(&data_, bytes), "allocating device memory");
}
DeviceMemory::~DeviceMemory() { cudaFree(data_); }
DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void DeviceMemory::copy_from(const void* host, std::size_t bytes) {
  require_success(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice), "copying to the device");
}
void DeviceMemory::copy_to(void* host, std::size_t bytes) const {
  require_success(cudaMemcpy(host, data_, bytes, cudaMemcpyDeviceToHost),
                  "copying from the device");
}
void DeviceMemory::poison() {
  if (bytes_ > 0) require_success(cudaMemset(data_, 0xff, bytes_), "poisoning device memory");
}

void copy_rows_to_host(void* host, const void* device, std::size_t pitch, std::size_t width,
                       std::size_t rows) {
  require_success(cudaMemcpy2D(host, width, device, pitch, width, rows, cudaMemcpyDeviceToHost),
                  "copying from the device");
}

void fill_normal(void* device, Element element, std::int64_t count, std::uint64_t seed) {
  if (count == 0) return;
  write_normal<<<1024, 256>>>(device, element, count, seed);
  require_success(cudaGetLastError(), "launching random numbers");
}

std::vector<double> queued_milliseconds(WarmUp warm_up, int runs,
                                        const std::function<void(int run)>& launch) {
  for (int i = 0; warm_up == WarmUp::three && i < 3; ++i) launch(i);
  wait_for_device();
  EventPairs events(runs);
  // 5 ms at 2 GHz: longer than the host takes to queue some dozens of launches.
  spin<<<1, 1>>>(10'000'000);
  require_success(cudaGetLastError(), "launching the spinning kernel");
  for (int run = 0; run < runs; ++run) {
    events.start(run);
    launch(run);
    events.stop(run);
  }
  wait_for_device();
  std::vector<double> times;
  for (int run = 0; run < runs; ++run) times.push_back(events.milliseconds(run));
  return times;
}

void mark_rung() {
  rung_marker<<<1, 1>>>();
  require_success(cudaGetLastError(), "launching a marker");
}

void wait_for_device() { require_success(cudaDeviceSynchronize(), "waiting for the device"); }

}  // namespace tilefold::bench
