// The instances of this family, by number in registry.hpp. No device code: any compiler reads it.
#pragma once

namespace tilefold::cuda::sm90 {

/// __global__ void(KernelParams) of entry `index`.
template <int index> const void* forward_function();
/// Its dynamic shared memory, in bytes.
template <int index> int forward_shared_bytes();

}  // namespace tilefold::cuda::sm90
