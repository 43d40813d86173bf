// A plan behind a rung's function pointers: made for a shape once, run again and again.
#include "bench/cuda/production_rung.hpp"

#include <memory>
#include <optional>

#include "cuda/launch/ladder.hpp"
#include "cuda/launch/ladder/entries.hpp"
#include "ladder_code_lines.hpp"
#include "tilefold/attention.hpp"
#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

namespace ladder = cuda::ladder;
using ladder::Element;
using ladder::Shape;

Problem problem_of(const Shape& shape, const ladder::Memory& memory, DType dtype) {
  const Device device = Device::cuda();
  const Extents queries = {shape.batch, shape.query_length, shape.heads, shape.head_dim};
  const Extents keys = {shape.batch, shape.key_length, shape.heads, shape.head_dim};
  Problem problem;
  problem.tensors.query = TensorView(memory.query, dtype, queries, device);
  problem.tensors.key = TensorView(memory.key, dtype, keys, device);
  problem.tensors.value = TensorView(memory.value, dtype, keys, device);
  problem.tensors.out = OutputView(memory.out, dtype, queries, device);
  problem.options.scale = double(shape.scale);
  problem.options.backend = Backend::cuda;
  if (shape.visible == ladder::Visible::causal) problem.options.mask = causal();
  return problem;
}

bool same(const Shape& a, const Shape& b) {
  return a.batch == b.batch && a.heads == b.heads && a.query_length == b.query_length &&
         a.key_length == b.key_length && a.head_dim == b.head_dim && a.visible == b.visible &&
         a.scale == b.scale;
}

/// The plan of the last shape; prepared, so that a launch allocates nothing.
template <DType dtype> Plan& plan_for(const Shape& shape) {
  static std::optional<Shape> planned;
  static std::optional<Plan> current;
  if (!planned || !same(*planned, shape)) {
    planned.reset();
    current = plan(problem_of(shape, {}, dtype));
    current->prepare();
    planned = shape;
  }
  return *current;
}

template <DType dtype>
void launch(const Shape& shape, const ladder::Memory& memory, cudaStream_t stream) {
  RunOptions how;
  how.stream = stream;
  plan_for<dtype>(shape).run(problem_of(shape, memory, dtype).tensors, how);
}

// prepare() holds the plan's own workspace: the rung's caller need not bring any.
std::size_t no_workspace(const Shape&) { return 0; }

constexpr int query_rows = 128, key_rows = 64;  // the tile of head dimension 64 and 128

ladder::Traffic traffic(const Shape& shape) {
  return {ladder::bytes_once(shape, Element::float16),
          ladder::bytes_by_query_tiles(shape, Element::float16, query_rows, key_rows)};
}

}  // namespace

void add_production_rungs() {
  static const bool added = [] {
    constexpr std::string_view source = "src/cuda/kernels/sm80/";
    const int lines = ladder::code_lines(source);
    ladder::add_rung({"sm80_f16", "tensor cores, cp.async, swizzled shared memory, every option",
                      source, lines, Element::float16, no_workspace, traffic, launch<DType::f16>});
    ladder::add_rung({"sm80_bf16", "the same in bfloat16", source, lines, Element::bfloat16,
                      no_workspace, traffic, launch<DType::bf16>});
    return true;
  }();
  static_cast<void>(added);
}

}  // namespace tilefold::bench
