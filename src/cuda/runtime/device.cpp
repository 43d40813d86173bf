#include "cuda/runtime/device.hpp"

#include "cuda/runtime/check.hpp"

namespace tilefold::cuda {

namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  require_success(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

DeviceProperties properties_of(int device) {
  DeviceProperties p;
  cudaDeviceProp all{};
  require_success(cudaGetDeviceProperties(&all, device), "cudaGetDeviceProperties");
  p.name = all.name;
  p.major = all.major;
  p.minor = all.minor;
  p.multiprocessors = all.multiProcessorCount;
  p.shared_bytes_a_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  p.bytes_per_second = 2e3 * attribute(cudaDevAttrMemoryClockRate, device) *
                       (attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8.0);
  p.cycles_per_second = 1e3 * attribute(cudaDevAttrClockRate, device);
  p.cache_bytes = all.l2CacheSize;
  return p;
}

// CUDA calls a driver that is absent one that is too old.
std::string absence_of(cudaError_t result) {
  int driver = 0;
  if (result == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
      driver == 0)
    return "no CUDA device: this machine has no CUDA driver";
  return std::string("no CUDA device: ") + cudaGetErrorString(result);
}

DeviceReport ask() {
  DeviceReport report;
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) {
    cudaGetLastError();
    report.absence = absence_of(result);
    return report;
  }
  for (int device = 0; device < count; ++device) report.devices.push_back(properties_of(device));
  if (count == 0) report.absence = "no CUDA device: the driver reports none";
  return report;
}

}  // namespace

const DeviceReport& device_report() {
  static const DeviceReport report = ask();
  return report;
}

const DeviceProperties* device_properties(int index) {
  const auto& devices = device_report().devices;
  return index >= 0 && index < int(devices.size()) ? &devices[std::size_t(index)] : nullptr;
}

CurrentDevice::CurrentDevice(int index) {
  int current = 0;
  require_success(cudaGetDevice(&current), "cudaGetDevice");
  if (current == index) return;
  require_success(cudaSetDevice(index), "cudaSetDevice");
  former_ = current;
}
CurrentDevice::~CurrentDevice() {
  if (former_ >= 0) cudaSetDevice(former_);
}

}  // namespace tilefold::cuda
