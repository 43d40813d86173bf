#include "cuda/host/fake_runtime.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <string_view>

namespace tilefold::testing {

FakeRuntime& fake_runtime() {
  static FakeRuntime runtime;
  return runtime;
}

void* allocate_on_device(std::size_t bytes) {
  void* memory = nullptr;
  return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : nullptr;
}
void free_on_device(void* memory) { (void)cudaFree(memory); }

namespace {

constexpr int devices = 2;

bool on_a_device(int device) { return device >= 0 && device < devices; }

struct Stretch {
  std::uintptr_t begin, bytes;
};
/// What cudaMalloc() gave, by where it begins.
std::map<std::uintptr_t, std::size_t>& allocations() {
  static std::map<std::uintptr_t, std::size_t> all;
  return all;
}
/// The allocation that holds an address; of 0 bytes where none does.
Stretch allocation_of(std::uintptr_t address) {
  const auto behind = allocations().upper_bound(address);
  if (behind == allocations().begin()) return {};
  const auto [begin, bytes] = *std::prev(behind);
  return address < begin + bytes ? Stretch{begin, bytes} : Stretch{};
}
/// Device of an address of device_memory() or of an allocation; -1: host.
int device_of(std::uintptr_t address) {
  return allocation_of(address).bytes > 0 ? 0 : int(address >> 44) - 1;
}
Stretch range_of(std::uintptr_t address) {
  const Stretch allocated = allocation_of(address);
  if (allocated.bytes > 0) return allocated;
  return {address >> 30 << 30, std::uintptr_t{1} << 30};
}

/// Everything that a map is made of, the address first: equal maps are maps of equal tensors.
struct MapImage {
  void* data;
  int type, rank, swizzle;
  std::array<cuuint64_t, 5> extents;
  std::array<cuuint64_t, 4> strides;
  std::array<cuuint32_t, 5> box;
};
static_assert(sizeof(MapImage) <= sizeof(CUtensorMap));

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data,
                      const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box,
                      const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  ++fake_runtime().calls.maps_encoded;
  if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  MapImage image{data, int(type), int(rank), int(swizzle), {}, {}, {}};
  for (cuuint32_t axis = 0; axis < rank; ++axis) {
    image.extents[axis] = extents[axis];
    image.box[axis] = box[axis];
    if (axis > 0) image.strides[axis - 1] = strides[axis - 1];
  }
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &image, sizeof image);
  return CUDA_SUCCESS;
}

CUresult replace_address(CUtensorMap* map, void* data) {
  ++fake_runtime().calls.addresses_replaced;
  if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(map, &data, sizeof data);
  return CUDA_SUCCESS;
}

CUresult pointer_attributes(unsigned count, CUpointer_attribute* attributes, void** answers,
                            CUdeviceptr pointer) {
  ++fake_runtime().calls.pointer_places;
  const int device = device_of(pointer);
  const bool found = on_a_device(device);
  for (unsigned i = 0; i < count; ++i) switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(answers[i]) = found ? unsigned(CU_MEMORYTYPE_DEVICE) : 0u;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(answers[i]) = found ? device : -2;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(answers[i]) = range_of(pointer).begin;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<std::size_t*>(answers[i]) = range_of(pointer).bytes;
        break;
      default: return CUDA_ERROR_NOT_SUPPORTED;
    }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace tilefold::testing

// The functions that the library calls and those that its kernels' host stubs call. One that is
// missing here is taken from libcudart, which then defines the others a second time.
using tilefold::testing::fake_runtime;

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {}
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return cudaSuccess; }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return cudaSuccess;
}
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, cudaStream_t) { return 0; }
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) { return cudaSuccess; }

cudaError_t cudaLaunchKernel(const void* function, dim3 blocks, dim3 threads, void** parameters,
                             std::size_t, cudaStream_t) {
  ++fake_runtime().calls.launches;
  if (fake_runtime().on_launch != nullptr) fake_runtime().on_launch(function, parameters);
  if (fake_runtime().compute != nullptr)
    fake_runtime().compute(function, int(blocks.x), int(threads.x), parameters);
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  ++fake_runtime().calls.get_device;
  *device = fake_runtime().current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  ++fake_runtime().calls.set_device;
  fake_runtime().current_device = device;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* pointer) {
  using namespace tilefold::testing;
  ++fake_runtime().calls.pointer_attributes;
  const int device = device_of(reinterpret_cast<std::uintptr_t>(pointer));
  *found = {};
  found->type = on_a_device(device) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  found->device = on_a_device(device) ? device : cudaInvalidDeviceId;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  using namespace tilefold::testing;
  const std::string_view wanted = name;
  *function = nullptr;
  if (wanted == "cuTensorMapEncodeTiled") *function = reinterpret_cast<void*>(encode_tiled);
  if (wanted == "cuTensorMapReplaceAddress") *function = reinterpret_cast<void*>(replace_address);
  if (wanted == "cuPointerGetAttributes") *function = reinterpret_cast<void*>(pointer_attributes);
  *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

// A library is its code, a kernel its library.
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  ++fake_runtime().calls.libraries_loaded;
  *library = static_cast<cudaLibrary_t>(const_cast<void*>(code));
  return cudaSuccess;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) {
  ++fake_runtime().calls.libraries_unloaded;
  return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  fake_runtime().kernel_name = name;
  *kernel = reinterpret_cast<cudaKernel_t>(library);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = tilefold::testing::devices;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "fake H200");
  properties->major = 9;
  properties->multiProcessorCount = 132;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 227 * 1024;  // shared memory of a block; clocks and widths may be anything
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  ++fake_runtime().calls.allocations;
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  tilefold::testing::allocations()[reinterpret_cast<std::uintptr_t>(*memory)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  tilefold::testing::allocations().erase(reinterpret_cast<std::uintptr_t>(memory));
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  ++fake_runtime().calls.copies;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = fake_runtime().captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaMemsetAsync(void*, int, std::size_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "fake"; }
const char* cudaGetErrorString(cudaError_t) { return "fake"; }
}
