// Rung 5 on the host: float16, bfloat16, and float16 with the sums rounded to float16.
#include "cuda/kernels/ladder/half.cuh"

#include "cuda/launch/ladder/entries.hpp"
#include "cuda/launch/ladder/launch.cuh"

namespace tilefold::cuda::ladder {

namespace {

using half::Accumulate;

std::size_t workspace_bytes(const Shape&) { return 0; }

Traffic traffic(const Shape& shape) {
  return {bytes_once(shape, Element::float16),
          bytes_by_query_tiles(shape, Element::float16, half::rows, half::keys)};
}

template <class T, Accumulate accumulate>
void launch_kernel(const Shape& shape, const Memory& memory, cudaStream_t stream) {
  const std::int64_t blocks =
      std::int64_t(shape.heads_in_all()) * tiles_over(shape.query_length, half::rows);
  with_head_dim(shape.head_dim, [&]<int head_dim>() {
    launch(half::forward<T, head_dim, accumulate>,
           {blocks, half::threads, int(sizeof(half::Plan<T, head_dim>)), stream},
           operands_of<T>(memory), shape);
  });
}

constexpr Rung described = {.name = "half_f16",
                            .adds = "16-bit inputs and output, float32 sums, no tensor cores",
                            .source = "src/cuda/kernels/ladder/half.cuh",
                            .code_lines = 0,
                            .element = Element::float16,
                            .workspace_bytes = workspace_bytes,
                            .traffic = traffic,
                            .launch = launch_kernel<half::Float16, Accumulate::float32>};

}  // namespace

Rung half_f16_rung() { return described; }

Rung half_bf16_rung() {
  Rung rung = described;
  rung.name = "half_bf16";
  rung.adds = "the same in bfloat16: wider range, 3 bits fewer";
  rung.element = Element::bfloat16;
  rung.launch = launch_kernel<half::Bfloat16, Accumulate::float32>;
  return rung;
}

Rung half_f16_accumulate_rung() {
  Rung rung = described;
  rung.name = "half_f16_sums";
  rung.adds = "a mistake to look at: sums rounded to float16 after every addition";
  rung.part = Part::aside;
  rung.launch = launch_kernel<half::Float16, Accumulate::float16>;
  return rung;
}

}  // namespace tilefold::cuda::ladder
