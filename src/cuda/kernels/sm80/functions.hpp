// The compiled entries of the registry, for host code that no CUDA compiler reads.
#pragma once

namespace tilefold::cuda::sm80 {

/// Address of entry `index`: __global__ void(ForwardParams). Defined one unit an entry.
template <int index> const void* forward_function();

}  // namespace tilefold::cuda::sm80
