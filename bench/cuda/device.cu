// bench/cuda/device.hpp over the CUDA runtime.
#include "bench/cuda/device.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "bench/cuda/power_meter.hpp"
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

struct CycleCount {
  long long cycles, nanoseconds;
};

__device__ long long global_nanoseconds() {
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// One thread. Begins and ends at a step of the global timer, which may come only once in a
// microsecond.
__global__ void count_cycles(long long nanoseconds, CycleCount* count) {
  const long long before = global_nanoseconds();
  long long begin = before;
  while (begin == before) begin = global_nanoseconds();
  const long long first = clock64();
  long long end = begin;
  while (end - begin < nanoseconds) end = global_nanoseconds();
  *count = {clock64() - first, end - begin};
}

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

/// The meter of the device that is current at the first call: a benchmark stays on one.
const PowerMeter& power_meter() {
  static const PowerMeter meter([] {
    int device = 0;
    char address[32] = "";
    require_success(cudaGetDevice(&device), "asking for the current device");
    require_success(cudaDeviceGetPCIBusId(address, sizeof address, device),
                    "asking for the device's address");
    return std::string(address);
  }());
  return meter;
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
  bool stopped(int pair) const {
    const cudaError_t state = cudaEventQuery(events_[2 * std::size_t(pair) + 1]);
    if (state != cudaErrorNotReady) require_success(state, "asking for an event");
    if (state == cudaErrorNotReady) cudaGetLastError();
    return state == cudaSuccess;
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

void require_device(const std::string& who) {
  if (const std::string& absence = cuda::device_report().absence; !absence.empty())
    throw Error(ErrorCode::unsupported, who + " needs a CUDA device: " + absence);
}

DeviceDescription describe_device() {
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

namespace {

// A card that has run at its power limit keeps a lower clock for a while, so that a point would
// depend on the points before it: on an H200 the same kernel (D 128, 512, causal) gave 336 TFLOPS
// after a rest, 296 right after long rows and 276 after a grid of D 64 (2026-11-30).
constexpr std::chrono::milliseconds rest{400};
// 5 ms at 2 GHz: longer than the host takes to queue a hundred launches and their events.
constexpr long long spinning_cycles = 10'000'000;
// Short beside the milliseconds in which a card changes its clock.
constexpr long long counting_nanoseconds = 100'000;

void warm(WarmUp warm_up, const std::function<void(int run)>& launch) {
  if (warm_up == WarmUp::none) return;
  wait_for_device();
  std::this_thread::sleep_for(rest);
  for (int i = 0; i < 3; ++i) launch(i);
}

double megahertz(const DeviceMemory& counted) {
  CycleCount count{};
  counted.copy_to(&count, sizeof count);
  return 1e3 * double(count.cycles) / double(count.nanoseconds);
}

}  // namespace

QueueFigures run_queue(WarmUp warm_up, int runs, const std::function<void(int run)>& launch) {
  DeviceMemory counted(sizeof(CycleCount));
  const auto count = [&](long long nanoseconds) {
    count_cycles<<<1, 1>>>(nanoseconds, static_cast<CycleCount*>(counted.data()));
    require_success(cudaGetLastError(), "launching the counting kernel");
  };
  EventPairs events(runs);
  count(0);  // loaded here: while a kernel spins, loading another would wait for it
  warm(warm_up, launch);
  wait_for_device();
  spin<<<1, 1>>>(spinning_cycles);
  require_success(cudaGetLastError(), "launching the spinning kernel");
  for (int run = 0; run < runs; ++run) {
    events.start(run);
    launch(run);
    events.stop(run);
  }
  count(counting_nanoseconds);
  QueueFigures figures;
  wait_for_device();
  for (int run = 0; run < runs; ++run) figures.milliseconds.push_back(events.milliseconds(run));
  figures.clock_mhz = megahertz(counted);
  return figures;
}

std::optional<double> sustained_watts(double once, const std::function<void(int run)>& launch) {
  constexpr double milliseconds = 200;
  const int runs = int(milliseconds / once) + 1;
  power_meter();  // opened here and not beside the launches
  EventPairs events(1);
  events.start(0);
  for (int run = 0; run < runs; ++run) launch(run);
  events.stop(0);
  std::optional<double> largest;
  while (!events.stopped(0)) {
    if (const std::optional<double> watts = power_meter().watts())
      largest = std::max(largest.value_or(0), *watts);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(rest);
  return largest;
}

void mark_rung() {
  rung_marker<<<1, 1>>>();
  require_success(cudaGetLastError(), "launching a marker");
}

void wait_for_device() { require_success(cudaDeviceSynchronize(), "waiting for the device"); }

}  // namespace tilefold::bench
