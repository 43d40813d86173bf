// Rung 7 on the host. This unit is compiled for 9.0a alone: wgmma, TMA and setmaxnreg are nowhere
// else.
#include "cuda/kernels/ladder/sm90_minimal.cuh"

#include "cuda/launch/ladder/entries.hpp"
#include "cuda/launch/ladder/launch.cuh"
#include "cuda/runtime/tensor_map.hpp"

namespace tilefold::cuda::ladder {

namespace {

using sm90_minimal::Maps;

std::size_t workspace_bytes(const Shape&) { return 0; }

Traffic traffic(const Shape& shape) {
  return {bytes_once(shape, Element::float16),
          bytes_by_query_tiles(shape, Element::float16, sm90_minimal::rows, sm90_minimal::keys)};
}

/// Boxes of 128 rows of a whole head. A tensor without rows has no map: one that nobody uses stands
/// in for it.
TensorMap map_of(const void* data, const void* instead, const Shape& shape, int length,
                 HalfType type) {
  HeadTensor tensor;
  tensor.data = length > 0 ? data : instead;
  tensor.type = type == HalfType::f16 ? ElementType::f16 : ElementType::bf16;
  tensor.head_dim = shape.head_dim;
  tensor.batch = shape.batch;
  tensor.heads = shape.heads;
  tensor.length = length > 0 ? length : 1;
  tensor.head_stride = shape.head_dim;
  tensor.row_stride = shape.row_stride();
  tensor.batch_stride = tensor.length * shape.row_stride();
  static_assert(sm90_minimal::rows == sm90_minimal::keys);
  return encode(head_box(tensor, sm90_minimal::rows));
}

void require_hopper() {
  int device = 0, major = 0, minor = 0;
  require_success(cudaGetDevice(&device), "cudaGetDevice");
  require_success(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                  "cudaDeviceGetAttribute");
  require_success(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                  "cudaDeviceGetAttribute");
  if (major != 9)
    throw Error(ErrorCode::unsupported, "the device's compute capability is " +
                                            std::to_string(major) + "." + std::to_string(minor) +
                                            ": sm90_minimal needs 9.0");
}

template <HalfType type>
void launch_kernel(const Shape& shape, const Memory& memory, cudaStream_t stream) {
  require_hopper();
  const std::int64_t blocks =
      std::int64_t(shape.heads_in_all()) * tiles_over(shape.query_length, sm90_minimal::rows);
  const Maps maps = {map_of(memory.query, memory.query, shape, shape.query_length, type),
                     map_of(memory.key, memory.query, shape, shape.key_length, type),
                     map_of(memory.value, memory.query, shape, shape.key_length, type)};
  with_head_dim(shape.head_dim, [&]<int head_dim>() {
    const Grid grid = {blocks, sm90_minimal::threads, int(sizeof(sm90_minimal::Plan<head_dim>)),
                       stream};
    launch_function(reinterpret_cast<const void*>(sm90_minimal::forward<type, head_dim>), grid,
                    maps, static_cast<unsigned short*>(memory.out), shape);
  });
}

}  // namespace

Rung sm90_minimal_f16_rung() {
  return {.name = "sm90_minimal_f16",
          .adds = "TMA, an mbarrier ring, a producer and two consumer warpgroups on wgmma",
          .source = "src/cuda/kernels/ladder/sm90_minimal.cuh",
          .code_lines = 0,
          .element = Element::float16,
          .weights = Element::float16,
          .part = Part::story,
          .workspace_bytes = workspace_bytes,
          .traffic = traffic,
          .launch = launch_kernel<HalfType::f16>};
}

Rung sm90_minimal_bf16_rung() {
  Rung rung = sm90_minimal_f16_rung();
  rung.name = "sm90_minimal_bf16";
  rung.adds = "the same in bfloat16";
  rung.element = rung.weights = Element::bfloat16;
  rung.launch = launch_kernel<HalfType::bf16>;
  return rung;
}

}  // namespace tilefold::cuda::ladder
