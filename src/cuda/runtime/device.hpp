// The CUDA devices of this machine. Without a driver there are none, and a sentence says why.
#pragma once

#include <string>
#include <vector>

namespace tilefold::cuda {

struct DeviceProperties {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int shared_bytes_a_block = 0;  // at most, dynamic
  double bytes_per_second = 0;   // of device memory: two transfers a clock over the whole bus
  double cycles_per_second = 0;  // of a multiprocessor, at most
  double cache_bytes = 0;        // of the L2 cache
};

struct DeviceReport {
  std::vector<DeviceProperties> devices;
  std::string absence;  // why there are none; empty where there is one
};

/// Asked once a process: devices do not come and go. Links no driver.
const DeviceReport& device_report();

/// Of one device; null where this machine has none of that number.
const DeviceProperties* device_properties(int index);

/// Makes a device current and the former one again at the end.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int former_ = -1;  // -1: the same
};

}  // namespace tilefold::cuda
