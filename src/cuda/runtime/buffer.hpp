// Device memory that frees itself.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "cuda/runtime/check.hpp"
#include "cuda/runtime/device.hpp"

namespace tilefold::cuda {

/// Bytes on the device that was current when they were allocated; 256-byte aligned.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
    if (bytes != 0) require_success(cudaMalloc(&data_, bytes), "cudaMalloc");
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(data_); }

  /// A copy of host elements; null where there are none.
  template <class T> static DeviceBuffer copy_of(const std::vector<T>& elements) {
    DeviceBuffer buffer(elements.size() * sizeof(T));
    if (!elements.empty())
      require_success(
          cudaMemcpy(buffer.data_, elements.data(), buffer.bytes_, cudaMemcpyHostToDevice),
          "cudaMemcpy to the device");
    return buffer;
  }

  void* data() const { return data_; }
  template <class T> T* as() const { return static_cast<T*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tilefold::cuda
