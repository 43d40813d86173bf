// A CUDA runtime without a device: it answers as two H200s would, counts what it is asked for and
// launches nothing, unless a test computes launches itself: memory of device 0 is the host's.
// Linked into a program, it stands for libcudart, so what run() costs and asks of the driver can be
// seen on any machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilefold::testing {

struct FakeCalls {
  int launches = 0;
  int get_device = 0, set_device = 0;
  int pointer_places = 0;      // cuPointerGetAttributes
  int pointer_attributes = 0;  // cudaPointerGetAttributes
  int maps_encoded = 0, addresses_replaced = 0;
  int allocations = 0, copies = 0;                   // of device memory
  int libraries_loaded = 0, libraries_unloaded = 0;  // of kernels compiled at run time
};

struct FakeRuntime {
  FakeCalls calls;
  int current_device = 0;
  bool captures = false;  // every stream
  void (*on_launch)(const void* function, void** parameters) = nullptr;
  void (*compute)(const void* function, int blocks, int threads, void** parameters) = nullptr;
  const char* kernel_name = nullptr;  // the last that cudaLibraryGetKernel() was asked for
};
FakeRuntime& fake_runtime();

/// Memory of device 0, which the host reads and writes too, where a header of the toolkit is not
/// wanted.
void* allocate_on_device(std::size_t bytes);
void free_on_device(void* memory);

/// The start of one of many allocations of 1 GiB on device 0 or 1. Nothing may read it. Any other
/// address but what cudaMalloc() gave, on device 0, is the host's.
inline char* device_memory(int device, int allocation) {
  return reinterpret_cast<char*>((std::uintptr_t(device) + 1) << 44 | std::uintptr_t(allocation)
                                                                          << 30);
}

}  // namespace tilefold::testing
