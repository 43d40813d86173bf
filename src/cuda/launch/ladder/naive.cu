// Rung 1 on the host: three launches and one matrix of scores.
#include "cuda/kernels/ladder/naive.cuh"

#include "cuda/launch/ladder/entries.hpp"
#include "cuda/launch/ladder/launch.cuh"

namespace tilefold::cuda::ladder {

namespace {

std::int64_t score_bytes(const Shape& shape) {
  return std::int64_t(shape.heads_in_all()) * shape.query_length * shape.key_length * 4;
}

std::size_t workspace_bytes(const Shape& shape) { return std::size_t(score_bytes(shape)); }

// S is written, read, written as P, read. Asked of the SMs' outside: each block of 16 x 16 scores
// loads 16 rows of Q and of K, a row of S is read three times, each block of P V all of V.
Traffic traffic(const Shape& shape) {
  const std::int64_t heads = shape.heads_in_all(), row = std::int64_t(shape.head_dim) * 4;
  const std::int64_t query_tiles = tiles_over(shape.query_length, naive::tile);
  const std::int64_t key_tiles = tiles_over(shape.key_length, naive::tile);
  const std::int64_t loads =
      heads * row *
      (key_tiles * shape.query_length + query_tiles * shape.key_length * 2 + shape.query_length);
  return {bytes_once(shape, Element::float32) + 4 * score_bytes(shape),
          loads + 6 * score_bytes(shape)};
}

void launch_kernels(const Shape& shape, const Memory& memory, cudaStream_t stream) {
  const Operands<float> operands = operands_of<float>(memory);
  const std::int64_t heads = shape.heads_in_all(), rows = heads * shape.query_length;
  const std::int64_t query_tiles = heads * tiles_over(shape.query_length, naive::tile);
  const std::int64_t key_tiles = tiles_over(shape.key_length, naive::tile);
  with_head_dim(shape.head_dim, [&]<int head_dim>() {
    launch(
        naive::scores<head_dim>,
        {query_tiles * key_tiles, naive::threads, int(sizeof(naive::ScorePlan<head_dim>)), stream},
        operands, shape);
    launch(naive::probabilities<head_dim>,
           {(rows + naive::warps - 1) / naive::warps, naive::threads, 0, stream}, operands, shape);
    launch(naive::weighted_sum<head_dim>,
           {query_tiles, naive::threads, int(sizeof(naive::SumPlan<head_dim>)), stream}, operands,
           shape);
  });
}

}  // namespace

Rung naive_rung() {
  return {.name = "naive",
          .adds = "the definition: scores and probabilities in device memory, three kernels",
          .source = "src/cuda/kernels/ladder/naive.cuh",
          .code_lines = 0,
          .element = Element::float32,
          .workspace_bytes = workspace_bytes,
          .traffic = traffic,
          .launch = launch_kernels};
}

}  // namespace tilefold::cuda::ladder
