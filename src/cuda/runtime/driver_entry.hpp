// Functions of the driver, found through the runtime: nothing links the driver.
#pragma once

#include "tilefold/error.hpp"

#include <string>

namespace tilefold::cuda {

/// Its address; null where the driver has none. `since`: the version of CUDA whose form of it is
/// meant, as 12000.
void* driver_entry(const char* name, unsigned since);

/// driver_entry() as a function of the type `Function`. Throws Error(unsupported) where there is
/// none.
template <class Function> Function required_driver_entry(const char* name, unsigned since) {
  void* const address = driver_entry(name, since);
  if (address == nullptr)
    throw Error(ErrorCode::unsupported, std::string("the driver has no ") + name +
                                            ": it must be of CUDA " + std::to_string(since / 1000) +
                                            ".0 or later");
  return reinterpret_cast<Function>(address);
}

}  // namespace tilefold::cuda
