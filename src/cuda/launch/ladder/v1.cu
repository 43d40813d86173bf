// Rung 2 on the host: a block a head.
#include "cuda/kernels/ladder/v1.cuh"

#include "cuda/launch/ladder/entries.hpp"
#include "cuda/launch/ladder/launch.cuh"

namespace tilefold::cuda::ladder {

namespace {

std::size_t workspace_bytes(const Shape& shape) {
  return std::size_t(shape.heads_in_all()) * std::size_t(shape.query_length) * 2 * sizeof(float);
}

// K and V once; O, m and l zeroed once; then for each key tile Q read, O, m and l read and written,
// by every query tile that sees it. A head's Q, O, m and l fit the L2, all heads' together do not.
Traffic traffic(const Shape& shape) {
  const int keys = shape.head_dim == 64 ? v1::keys<64> : v1::keys<128>;
  std::int64_t rows = 0;  // query rows visited, over all key tiles
  for (int key = 0; key < shape.key_length; key += keys)
    rows += shape.query_length - shape.first_query_seeing(key) / v1::rows * v1::rows;
  const std::int64_t columns = shape.head_dim, queries = shape.query_length;
  const std::int64_t floats =
      2 * shape.key_length * columns + queries * (columns + 2) + rows * (3 * columns + 4);
  const std::int64_t bytes = 4 * floats * shape.heads_in_all();
  return {bytes, bytes};
}

void launch_kernel(const Shape& shape, const Memory& memory, cudaStream_t stream) {
  with_head_dim(shape.head_dim, [&]<int head_dim>() {
    launch(v1::forward<head_dim>,
           {shape.heads_in_all(), v1::threads, int(sizeof(v1::Plan<head_dim>)), stream},
           operands_of<float>(memory), shape);
  });
}

}  // namespace

Rung v1_rung() {
  return {.name = "v1",
          .adds = "scores stay on the chip; O, m, l in device memory, normalised at every tile",
          .source = "src/cuda/kernels/ladder/v1.cuh",
          .code_lines = 0,
          .element = Element::float32,
          .workspace_bytes = workspace_bytes,
          .traffic = traffic,
          .launch = launch_kernel};
}

}  // namespace tilefold::cuda::ladder
