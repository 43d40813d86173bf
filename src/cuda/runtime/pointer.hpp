// Whose memory a pointer is.
#pragma once

#include <cstdint>

namespace tilefold::cuda {

/// Addresses [first, last).
struct AddressRange {
  std::uintptr_t first = 0, last = 0;
  bool holds(std::uintptr_t address) const { return first <= address && address < last; }
};

enum class AskFor { place, place_and_allocation };

/// What the driver says of a pointer, in one call.
struct PointerPlace {
  int device = -1;          // whose own memory it is; -1: that of none, or managed by all
  AddressRange allocation;  // that it lies in, if asked for
};
PointerPlace place_of(const void* pointer, AskFor what);

/// Throws Error(device_mismatch) for host memory and for that of another device; managed memory
/// passes. Slower than place_of().
void require_on_device(const char* name, const void* pointer, int device);

}  // namespace tilefold::cuda
