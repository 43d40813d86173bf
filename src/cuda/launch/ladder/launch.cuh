// One checked launch, for the rungs beside this file.
#pragma once

#include <string>

#include "cuda/kernels/ladder/shape.cuh"
#include "cuda/launch/ladder.hpp"
#include "cuda/runtime/launch.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda::ladder {

template <class T> Operands<T> operands_of(const Memory& memory) {
  return {static_cast<const T*>(memory.query), static_cast<const T*>(memory.key),
          static_cast<const T*>(memory.value), static_cast<T*>(memory.out),
          static_cast<float*>(memory.workspace)};
}

struct Grid {
  std::int64_t blocks;
  int threads;
  int shared_bytes;  // dynamic
  cudaStream_t stream;
};

/// Throws Error with CUDA's own words. The rungs have no prepare(): the limit of shared memory is
/// raised at each launch, which costs the host a microsecond and the device nothing.
template <class... Parameters>
void launch_function(const void* function, const Grid& grid, const Parameters&... parameters) {
  if (grid.blocks > 0x7fffffff)
    throw Error(ErrorCode::unsupported, "the grid is " + std::to_string(grid.blocks) +
                                            " blocks: it must be below 2147483648");
  allow_shared(function, grid.shared_bytes);
  cuda::launch({function, grid.blocks, grid.threads, grid.shared_bytes, grid.stream},
               "launching a rung of the ladder", parameters...);
}
template <class T> void launch(void (*kernel)(Operands<T>, Shape), const Grid& grid,
                               const Operands<T>& operands, const Shape& shape) {
  launch_function(reinterpret_cast<const void*>(kernel), grid, operands, shape);
}

/// Calls `visit` with the head dimension as a constant; ladder::run() refuses others than these.
template <class Visit> void with_head_dim(int head_dim, const Visit& visit) {
  if (head_dim == 64)
    visit.template operator()<64>();
  else
    visit.template operator()<128>();
}

}  // namespace tilefold::cuda::ladder
