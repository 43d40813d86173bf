// A kernel of the library behind a rung's function pointers: prepared for a shape once, run again
// and again.
#include "bench/cuda/production_rung.hpp"

#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "cuda/launch/forward_kernel.hpp"
#include "cuda/launch/forward_plan.hpp"
#include "cuda/launch/ladder.hpp"
#include "cuda/launch/ladder/entries.hpp"
#include "cuda/launch/ladder/sm80_unswizzled.hpp"
#include "ladder_code_lines.hpp"
#include "tilefold/attention.hpp"
#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

namespace ladder = cuda::ladder;
using cuda::ForwardKernel;
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

/// The first kernel of a family that computes the problem, whatever faster family plan() would
/// choose.
ForwardKernel kernel_for(std::span<const ForwardKernel> family, const core::Geometry& geometry,
                         const Problem& problem) {
  std::string reasons;
  for (const ForwardKernel& kernel : family) {
    const auto reason = kernel.refusal(kernel, geometry, problem);
    if (!reason) return kernel;
    reasons += std::string("; ") + kernel.candidate.name + ": " + *reason;
  }
  throw Error(ErrorCode::unsupported, "no kernel of the family computes this" + reasons);
}

int index_of(const ForwardKernel& kernel) {
  const auto all = cuda::kernels();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (std::strcmp(all[i].name, kernel.candidate.name) == 0) return int(i);
  throw Error(ErrorCode::unsupported, std::string(kernel.candidate.name) + " is in no table");
}

/// One kernel, ready for one shape: a launch allocates nothing.
class ReadyKernel {
 public:
  using Adjust = void (*)(ForwardKernel& kernel, const Shape& shape);

  ReadyKernel(const Shape& shape, DType dtype, std::span<const ForwardKernel> family, Adjust adjust)
      : shape_(shape),
        dtype_(dtype),
        problem_(problem_of(shape, {}, dtype)),
        geometry_(core::resolve(problem_)),
        kernel_(kernel_for(family, geometry_, problem_)),
        schedule_(cuda::make_schedule(geometry_, index_of(kernel_), problem_)) {
    if (adjust != nullptr) adjust(kernel_, shape);
    prepared_ = std::make_unique<cuda::ForwardPlan>(execution(), kernel_);
    if (const std::size_t bytes = cuda::workspace_bytes(execution()))
      prepared_->allocate_workspace(bytes);
  }
  ReadyKernel(const ReadyKernel&) = delete;
  ReadyKernel& operator=(const ReadyKernel&) = delete;

  const Shape& shape() const { return shape_; }
  void run(const ladder::Memory& memory, cudaStream_t stream) const {
    cuda::run(execution(), *prepared_, problem_of(shape_, memory, dtype_).tensors,
              prepared_->workspace(), stream);
  }

 private:
  cuda::Execution execution() const { return {geometry_, schedule_, problem_, index_of(kernel_)}; }

  Shape shape_;
  DType dtype_;
  Problem problem_;
  core::Geometry geometry_;
  ForwardKernel kernel_;
  planner::Schedule schedule_;
  std::unique_ptr<cuda::ForwardPlan> prepared_;
};

using Family = std::span<const ForwardKernel> (*)();

template <DType dtype, Family family, ReadyKernel::Adjust adjust = nullptr>
void launch(const Shape& shape, const ladder::Memory& memory, cudaStream_t stream) {
  static std::unique_ptr<ReadyKernel> ready;
  if (ready == nullptr || !same(ready->shape(), shape)) {
    ready.reset();
    ready = std::make_unique<ReadyKernel>(shape, dtype, family(), adjust);
  }
  ready->run(memory, stream);
}

void leave_rows_plain(ForwardKernel& kernel, const Shape& shape) {
  kernel.function = ladder::unswizzled_function(shape.head_dim);
}

// The kernel holds its own workspace: the rung's caller need not bring any.
std::size_t no_workspace(const Shape&) { return 0; }

ladder::Traffic traffic(const Shape& shape) {
  const cuda::sm80::ForwardConfig config = ladder::unswizzled(shape.head_dim);  // the same tile
  return {
      ladder::bytes_once(shape, Element::float16),
      ladder::bytes_by_query_tiles(shape, Element::float16, config.tile_rows(), config.tile_keys)};
}

ladder::Rung sm80_f16() {
  constexpr std::string_view source = "src/cuda/kernels/sm80/";
  return {.name = "sm80_f16",
          .adds = "tensor cores, cp.async, swizzled shared memory, every option",
          .source = source,
          .code_lines = ladder::code_lines(source),
          .element = Element::float16,
          .weights = Element::float16,
          .part = ladder::Part::story,
          .workspace_bytes = no_workspace,
          .traffic = traffic,
          .launch = launch<DType::f16, cuda::sm80_kernels>};
}

ladder::Rung in_bfloat16(ladder::Rung rung, std::string_view name, decltype(rung.launch) run) {
  rung.name = name;
  rung.adds = "the same in bfloat16";
  rung.element = rung.weights = Element::bfloat16;
  rung.launch = run;
  return rung;
}

ladder::Traffic sm90_traffic(const Shape& shape) {
  const int rows = shape.head_dim == 64 ? 192 : 128;  // of a query tile
  return {ladder::bytes_once(shape, Element::float16),
          ladder::bytes_by_query_tiles(shape, Element::float16, rows, 128)};
}

ladder::Rung sm90_f16() {
  constexpr std::string_view source = "src/cuda/kernels/sm90/forward/";
  ladder::Rung rung = sm80_f16();
  rung.name = "sm90_f16";
  rung.adds = "a scout, turns of the consumers, a persistent grid, every option";
  rung.source = source;
  rung.code_lines = ladder::code_lines(source);
  rung.traffic = sm90_traffic;
  rung.launch = launch<DType::f16, cuda::sm90_kernels>;
  return rung;
}

ladder::Rung sm80_f16_unswizzled() {
  ladder::Rung rung = sm80_f16();
  rung.name = "sm80_f16_plain_rows";
  rung.adds = "a step back to look at: sm80_f16 without the swizzle";
  rung.part = ladder::Part::aside;
  rung.launch = launch<DType::f16, cuda::sm80_kernels, leave_rows_plain>;
  return rung;
}

}  // namespace

void add_production_rungs() {
  static const bool added = [] {
    for (const ladder::Rung& rung :
         {sm80_f16(),
          in_bfloat16(sm80_f16(), "sm80_bf16", launch<DType::bf16, cuda::sm80_kernels>)})
      ladder::add_rung(rung, "sm90_minimal_f16");
    for (const ladder::Rung& rung :
         {sm90_f16(),
          in_bfloat16(sm90_f16(), "sm90_bf16", launch<DType::bf16, cuda::sm90_kernels>)})
      ladder::add_rung(rung);
    ladder::add_rung(sm80_f16_unswizzled());
    return true;
  }();
  static_cast<void>(added);
}

}  // namespace tilefold::bench
