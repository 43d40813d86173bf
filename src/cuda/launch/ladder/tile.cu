// Rung 3 on the host.
#include "cuda/kernels/ladder/tile.cuh"

#include "cuda/launch/ladder/entries.hpp"
#include "cuda/launch/ladder/launch.cuh"

namespace tilefold::cuda::ladder {

namespace {

std::size_t workspace_bytes(const Shape&) { return 0; }

Traffic traffic(const Shape& shape) {
  return {bytes_once(shape, Element::float32),
          bytes_by_query_tiles(shape, Element::float32, tile::rows, tile::keys)};
}

void launch_kernel(const Shape& shape, const Memory& memory, cudaStream_t stream) {
  const std::int64_t blocks =
      std::int64_t(shape.heads_in_all()) * tiles_over(shape.query_length, tile::rows);
  with_head_dim(shape.head_dim, [&]<int head_dim>() {
    launch(tile::forward<head_dim>,
           {blocks, tile::threads, int(sizeof(tile::Plan<head_dim>)), stream},
           operands_of<float>(memory), shape);
  });
}

}  // namespace

Rung tile_rung() {
  return {.name = "tile",
          .adds = "queries outside: a block a query tile, O on the chip, no workspace",
          .source = "src/cuda/kernels/ladder/tile.cuh",
          .code_lines = 0,
          .element = Element::float32,
          .workspace_bytes = workspace_bytes,
          .traffic = traffic,
          .launch = launch_kernel};
}

}  // namespace tilefold::cuda::ladder
