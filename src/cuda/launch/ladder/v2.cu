// Rung 4 on the host.
#include "cuda/kernels/ladder/v2.cuh"

#include "cuda/launch/ladder/entries.hpp"
#include "cuda/launch/ladder/launch.cuh"

namespace tilefold::cuda::ladder {

namespace {

std::size_t workspace_bytes(const Shape&) { return 0; }

Traffic traffic(const Shape& shape) {
  const int keys = shape.head_dim == 64 ? v2::keys<64> : v2::keys<128>;
  return {bytes_once(shape, Element::float32),
          bytes_by_query_tiles(shape, Element::float32, v2::rows, keys)};
}

void launch_kernel(const Shape& shape, const Memory& memory, cudaStream_t stream) {
  const std::int64_t blocks =
      std::int64_t(shape.heads_in_all()) * tiles_over(shape.query_length, v2::rows);
  with_head_dim(shape.head_dim, [&]<int head_dim>() {
    launch(v2::forward<head_dim>, {blocks, v2::threads, int(sizeof(v2::Plan<head_dim>)), stream},
           operands_of<float>(memory), shape);
  });
}

}  // namespace

Rung v2_rung() {
  return {.name = "v2",
          .adds = "query rows over warps, O in registers, one division at the end",
          .source = "src/cuda/kernels/ladder/v2.cuh",
          .code_lines = 0,
          .element = Element::float32,
          .workspace_bytes = workspace_bytes,
          .traffic = traffic,
          .launch = launch_kernel};
}

}  // namespace tilefold::cuda::ladder
