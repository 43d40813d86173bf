#include "cuda/jit/module.hpp"

#include <cuda_runtime_api.h>

#include <mutex>
#include <unordered_map>

#include "cuda/runtime/check.hpp"

namespace tilefold::cuda::jit {

Module::Module(std::shared_ptr<const Cubin> cubin) : cubin_(std::move(cubin)) {
  cudaLibrary_t library = nullptr;
  require_success(
      cudaLibraryLoadData(&library, cubin_->code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      "loading a kernel that was compiled at run time");
  library_ = library;
  cudaKernel_t kernel = nullptr;
  const cudaError_t result = cudaLibraryGetKernel(&kernel, library, cubin_->kernel.c_str());
  if (result != cudaSuccess) cudaLibraryUnload(library);  // no destructor runs after a throw
  require_success(result, "finding a kernel that was compiled at run time");
  function_ = kernel;
}

// At the end of a process the driver may be gone before: then there is nothing to unload.
Module::~Module() { cudaLibraryUnload(static_cast<cudaLibrary_t>(library_)); }

std::shared_ptr<const Module> load(const std::shared_ptr<const Cubin>& cubin) {
  static std::mutex& mutex = *new std::mutex;
  // A module holds its cubin: while one lives, no other cubin has its address.
  static auto& modules = *new std::unordered_map<const Cubin*, std::weak_ptr<const Module>>;
  const std::lock_guard lock(mutex);
  std::erase_if(modules, [](const auto& entry) { return entry.second.expired(); });
  if (const auto at = modules.find(cubin.get()); at != modules.end())
    if (std::shared_ptr<const Module> module = at->second.lock()) return module;
  std::shared_ptr<const Module> module = std::make_shared<const Module>(cubin);
  modules[cubin.get()] = module;
  return module;
}

}  // namespace tilefold::cuda::jit
