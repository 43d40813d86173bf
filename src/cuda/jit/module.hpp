// A compiled kernel in the driver's hands. Not run on hardware yet.
#pragma once

#include <memory>

#include "cuda/jit/nvrtc.hpp"

namespace tilefold::cuda::jit {

/// Serves every device whose architecture is the kernel's: it belongs to no context. Unloaded with
/// its last holder, which must outlive the launches.
class Module {
 public:
  explicit Module(std::shared_ptr<const Cubin> cubin);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// What launches and attributes take in place of a __global__ function's address.
  const void* function() const { return function_; }

 private:
  std::shared_ptr<const Cubin> cubin_;  // the driver may read it as long as it is loaded
  void* library_ = nullptr;             // a cudaLibrary_t
  const void* function_ = nullptr;      // a cudaKernel_t
};

/// The one module of a cubin, as long as somebody holds it. Throws Error(device_failed).
std::shared_ptr<const Module> load(const std::shared_ptr<const Cubin>& cubin);

}  // namespace tilefold::cuda::jit
