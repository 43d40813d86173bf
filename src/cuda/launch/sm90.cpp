// The table of Hopper kernels: one row an entry of kernels/sm90/forward/registry.hpp; their tensor
// maps, the order of their work and their launch.
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "cuda/kernels/sm90/forward/functions.hpp"
#include "cuda/kernels/sm90/forward/params.hpp"
#include "cuda/kernels/sm90/forward/registry.hpp"
#include "cuda/launch/formula_data.hpp"
#include "cuda/launch/forward_kernel.hpp"
#include "cuda/launch/forward_plan.hpp"
#include "cuda/launch/kernel_costs.hpp"
#include "cuda/launch/tensor_core.hpp"
#include "cuda/launch/work_order.hpp"
#include "cuda/runtime/device.hpp"
#include "cuda/runtime/launch.hpp"
#include "cuda/runtime/tensor_map.hpp"

namespace tilefold::cuda {

namespace {

using sm90::ForwardConfig;

std::string name_of(const ForwardConfig& c) {
  return kernel_name("sm90", c.type, c.head_dim, c.value_dim) + " " +
         std::to_string(c.tile_rows()) + "x" + std::to_string(c.tile_keys) +
         (c.formula == sm90::Formula::range ? "" : " formula");
}

// ---- tensor maps

/// Query, key or value as TMA sees it: a ragged tensor is one long sequence.
HeadTensor head_tensor(const TensorView& tensor) {
  const bool dense = tensor.rank() == 4;
  HeadTensor head;
  head.data = tensor.data();
  head.type = element_type(tensor.dtype());
  head.head_dim = int(tensor.dim(dense ? 3 : 2));
  head.batch = dense ? tensor.dim(0) : 1;
  head.length = tensor.dim(dense ? 1 : 0);
  head.heads = tensor.dim(dense ? 2 : 1);
  head.batch_stride = dense ? tensor.stride(0) : 0;
  head.row_stride = tensor.stride(dense ? 1 : 0);
  head.head_stride = tensor.stride(dense ? 2 : 1);
  return head;
}

std::int64_t rows_of(const TensorView& tensor) { return tensor.dim(tensor.rank() == 4 ? 1 : 0); }

/// Where no sequence has keys none are loaded, but a tensor map must describe something: Q, whose
/// rows are the work.
const TensorView& or_query(const TensorView& keys, const Tensors& tensors) {
  return rows_of(keys) == 0 ? tensors.query : keys;
}

std::optional<std::string> map_refusal(const char* name, const TensorView& tensor) {
  if (rows_of(tensor) == 0) return std::nullopt;  // nothing to load
  HeadTensor head = head_tensor(tensor);
  // Tensors without data are planned for: run() checks their pointers.
  if (head.data == nullptr) head.data = reinterpret_cast<const void*>(std::uintptr_t{16});
  if (head.length > INT32_MAX) return std::string(name) + " has more than 2147483647 rows";
  const auto broadcast = [](std::int64_t extent, std::int64_t stride) {
    return extent > 1 && stride == 0;
  };
  if (broadcast(head.batch, head.batch_stride) || broadcast(head.length, head.row_stride) ||
      broadcast(head.heads, head.head_stride))
    return std::string("TMA repeats no rows: ") + name + " has a stride of 0";
  const std::string reason = cuda::refusal(column_box(head, 64));
  if (!reason.empty()) return std::string("TMA cannot read ") + name + ": its " + reason;
  return std::nullopt;
}

// ---- refusals

std::optional<std::string> device_refusal(const Problem& problem) {
  const DeviceProperties* p = device_properties(problem.tensors.query.device().index);
  if (p == nullptr || (p->major == 9 && p->minor == 0)) return std::nullopt;
  return "its code is for compute capability 9.0: " + p->name + " has " + std::to_string(p->major) +
         "." + std::to_string(p->minor);
}

std::optional<std::string> layout_refusal(const ForwardConfig& c, const core::Geometry& geometry,
                                          const Problem& problem) {
  if (auto reason = head_refusal(c.head_dim, c.value_dim, geometry, "TMA")) return reason;
  if (geometry.key_layout == core::KeyLayout::paged) return "its keys are not paged";
  const Tensors& t = problem.tensors;
  if (auto reason = map_refusal("query", t.query)) return reason;
  if (auto reason = map_refusal("key", t.key)) return reason;
  return map_refusal("value", core::value_of(t, problem.options));
}

std::optional<std::string> formula_refusal(const ForwardConfig& c, const core::Geometry& geometry,
                                           const Problem& problem) {
  if (c.formula == sm90::Formula::changed) return std::nullopt;
  if (auto reason = range_refusal(problem)) return reason;
  // Scores stay unscaled, scale * log2(e) enters the exponent; a negative one would turn the order.
  return scale_refusal(geometry.scale);
}

std::optional<std::string> refusal(const ForwardKernel& kernel, const core::Geometry& geometry,
                                   const Problem& problem) {
  const ForwardConfig c = sm90::registry(kernel.index);
  if (auto reason = device_refusal(problem)) return reason;
  if (auto reason = type_refusal(c.type, geometry, problem)) return reason;
  if (auto reason = layout_refusal(c, geometry, problem)) return reason;
  return formula_refusal(c, geometry, problem);
}

// ---- work

/// A list a head fills its last tile badly where queries are few: packed, the group's heads fill
/// each other's tiles. Worth it from a quarter of the tiles on, because packed rows are copied
/// one by one and leave one by one. Example: 8 heads over one decode row are 8 tiles, or 1 packed.
int packed_heads(const ForwardKernel& kernel, const core::Geometry& geometry) {
  const std::int64_t rows = kernel.candidate.tile.block_queries, group = geometry.group();
  std::int64_t apart = 0, packed = 0;
  for (const core::Sequence& s : geometry.sequences) {
    apart += group * ((s.query_length + rows - 1) / rows);
    packed += (group * s.query_length + rows - 1) / rows;
  }
  return 4 * packed <= 3 * apart ? int(group) : 1;
}

// ---- launch

/// The epilogue between two query tiles costs tensor-core time: its short form where it will do.
sm90::OutputPath output_path(const ForwardConfig& c, const ForwardParams& p, const TensorBox& out) {
  const ElementType own = element_type(dtype_of(c.type));
  const Strides& s = p.out_strides;
  const auto bytes = reinterpret_cast<std::uintptr_t>(p.out) | std::uintptr_t(2 * s.outer) |
                     std::uintptr_t(2 * s.row) | std::uintptr_t(2 * s.head);
  const auto narrow = [](std::int64_t stride) { return stride >= 0 && stride <= INT32_MAX; };
  const bool fast = p.pack == 1 && p.shape.splits == 1 && p.out_type == own && bytes % 16 == 0 &&
                    p.sinks == nullptr && narrow(s.row) && narrow(p.lse_strides.row);
  if (!fast) return sm90::OutputPath::general;
  const bool staged =
      c.query_stages > 1 && c.value_groups() <= c.key_groups() && cuda::refusal(out).empty();
  return staged ? sm90::OutputPath::box : sm90::OutputPath::direct;
}

/// Whether the last row tile of a list leaves warpgroups without rows that pass its keys by: such
/// tiles are shorter than the others.
bool has_idle_warpgroups(const ForwardConfig& c, const core::Geometry& geometry,
                         const ForwardParams& p) {
  const std::int64_t last = std::int64_t(geometry.max_query_length) * p.pack % c.tile_rows();
  return c.passes_by() && last != 0 && last <= c.tile_rows() - ForwardConfig::warpgroup_rows;
}

void enqueue(const ForwardKernel& kernel, const LaunchSite& site) {
  const ForwardConfig c = sm90::registry(kernel.index);
  const ForwardParams& p = site.launch.params;
  if (p.shape.items == 0) return;
  const Tensors& t = site.tensors;
  const TensorView& value = core::value_of(t, site.options);
  sm90::KernelParams params{};
  params.problem = p;
  params.query_path = p.pack == 1 ? sm90::QueryPath::box : sm90::QueryPath::rows;
  if (params.query_path == sm90::QueryPath::box)
    params.query = encode(column_box(head_tensor(t.query), ForwardConfig::warpgroup_rows));
  params.key = encode(column_box(head_tensor(or_query(t.key, t)), c.tile_keys));
  params.value = encode(column_box(head_tensor(or_query(value, t)), c.tile_keys));
  params.query_rows = t.query.rank() == 4 ? int(rows_of(t.query)) : 0;
  params.key_rows = t.key.rank() == 4 ? int(rows_of(t.key)) : 0;
  params.items = int(p.shape.items);
  params.order = sm90_order(site.geometry, p);
  const int blocks = std::min(params.items, site.multiprocessors);
  const bool even = p.work == nullptr && !site.geometry.lengths_on_device &&
                    params.order.section == 0 && !has_idle_warpgroups(c, site.geometry, p);
  params.turn = even ? sm90::Turn::fixed : sm90::Turn::counted;
  const TensorBox out = column_box(head_tensor(t.out), 16);  // a warp's rows
  params.output_path = output_path(c, p, out);
  if (params.output_path == sm90::OutputPath::box) params.out = encode(out);
  params.counters = site.counters;
  launch({kernel.function, blocks, kernel.threads, site.shared_bytes,
          static_cast<cudaStream_t>(site.stream)},
         kernel.candidate.name, params);
}

// ---- table

template <int index> int shared_bytes(int, int) { return sm90::forward_shared_bytes<index>(); }

// Of one multiprocessor: wgmma makes 4096 FLOPs a cycle; 16 exponentials; 128 bytes of shared
// memory.
template <int index> ForwardKernel row() {
  constexpr ForwardConfig c = sm90::registry(index);
  static const std::string name = name_of(c);
  ForwardKernel kernel{{name.c_str(),
                        Backend::cuda,
                        dtype_of(c.type),
                        {c.tile_rows(), c.tile_keys, c.tile_rows()},
                        "wgmma, TMA",
                        4096,
                        16,
                        128,
                        c.tile_rows()},
                       sm90::forward_function<index>(),
                       c.threads(),
                       shared_bytes<index>,
                       refusal,
                       index};
  kernel.pointer_alignment = 16;
  kernel.packed_heads = packed_heads;
  kernel.order = longest_first;
  kernel.enqueue = enqueue;
  kernel.counters = 2;
  kernel.blocks_a_multiprocessor = 1;
  kernel.candidate.cost =
      sm90_cost({c.head_dim, c.value_dim, kernel.candidate.tile,
                 c.formula == sm90::Formula::range ? Formulas::none : Formulas::read,
                 kernel.blocks_a_multiprocessor});
  return kernel;
}

template <int... index>
std::array<ForwardKernel, sizeof...(index)> rows(std::integer_sequence<int, index...>) {
  return {row<index>()...};
}

}  // namespace

std::span<const ForwardKernel> sm90_kernels() {
  static const auto table = rows(std::make_integer_sequence<int, sm90::registry_size>{});
  return table;
}

}  // namespace tilefold::cuda
