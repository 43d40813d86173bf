// The table of Hopper kernels: one row an entry of kernels/sm90/forward/registry.hpp; their tensor
// maps, the order of their work and their launch.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "cuda/kernels/sm90/forward/functions.hpp"
#include "cuda/kernels/sm90/forward/params.hpp"
#include "cuda/kernels/sm90/forward/registry.hpp"
#include "cuda/launch/compiled.hpp"
#include "cuda/launch/formula_data.hpp"
#include "cuda/launch/forward_kernel.hpp"
#include "cuda/launch/forward_plan.hpp"
#include "cuda/launch/kernel_costs.hpp"
#include "cuda/launch/run_time.hpp"
#include "cuda/launch/tensor_core.hpp"
#include "cuda/launch/work_order.hpp"
#include "cuda/runtime/device.hpp"
#include "cuda/runtime/launch.hpp"
#include "cuda/runtime/tensor_map.hpp"

namespace tilefold::cuda {

namespace {

using sm90::ForwardConfig;
using sm90::TileChoice;

/// Of sm90::compiled_tiles: the row that takes over where the one of the same heads is refused.
constexpr int straddled = sm90::compiled_shapes - 1;

ForwardConfig config_of(const ForwardKernel& kernel) {
  return kernel.compiled == nullptr ? sm90::registry(kernel.index) : config_of(*kernel.compiled);
}

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

/// Blocks of queries of the mask's own are cut by tiles that hold no whole number of them; the next
/// row of the table has smaller tiles for the same heads.
std::optional<std::string> straddle_refusal(const ForwardKernel& kernel, const Problem& problem) {
  const TileChoice &own = sm90::compiled_tiles[kernel.at_run_time->row],
                   &other = sm90::compiled_tiles[straddled];
  const auto rows = [](const TileChoice& t) { return ForwardConfig::warpgroup_rows * t.consumers; };
  if (own.head_dim != other.head_dim || rows(own) == rows(other)) return std::nullopt;
  const int block = score::code_of(problem.options.mask.node())->code().query_block;
  if (block == 0 || rows(own) % block == 0 || rows(other) % block != 0) return std::nullopt;
  return "its tiles of " + std::to_string(rows(own)) + " queries straddle the mask's blocks of " +
         std::to_string(block);
}

std::optional<std::string> refusal(const ForwardKernel& kernel, const core::Geometry& geometry,
                                   const Problem& problem) {
  const ForwardConfig c = config_of(kernel);
  if (auto reason = device_refusal(problem)) return reason;
  if (auto reason = type_refusal(c.type, geometry, problem)) return reason;
  if (auto reason = layout_refusal(c, geometry, problem)) return reason;
  if (kernel.at_run_time != nullptr) {
    if (auto reason = run_time_refusal(geometry, problem)) return reason;
    return straddle_refusal(kernel, problem);
  }
  if (kernel.compiled != nullptr) return formula_refusal(*kernel.compiled, geometry, problem);
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

/// Whether the short form of the epilogue will do: the time between two query tiles is lost to the
/// tensor cores.
bool leaves_fast(const ForwardConfig& c, const ForwardParams& p, const Problem& problem) {
  const ElementType own = element_type(dtype_of(c.type));
  const Strides& s = p.out_strides;
  const auto bytes =
      std::uintptr_t(2 * s.outer) | std::uintptr_t(2 * s.row) | std::uintptr_t(2 * s.head);
  const auto narrow = [](std::int64_t stride) { return stride >= 0 && stride <= INT32_MAX; };
  return p.pack == 1 && p.shape.splits == 1 && p.out_type == own && bytes % 16 == 0 &&
         !problem.tensors.sinks.present() && narrow(s.row) && narrow(p.lse_strides.row);
}
/// For outputs that start on 16 bytes.
sm90::OutputPath output_path(const ForwardConfig& c, const LaunchPlan& plan, const TensorBox& out) {
  if (!leaves_fast(c, plan.params, plan.problem)) return sm90::OutputPath::general;
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

/// Parameters of a plan's launches. A run takes a copy and puts its pointers in: the driver writes
/// a map's address in a fifth of the time that it takes to make the map.
class Sm90Launch final : public FamilyLaunch {
 public:
  Sm90Launch(const ForwardKernel& kernel, const LaunchPlan& plan)
      : kernel_(kernel),
        shared_bytes_(plan.shared_bytes),
        formula_(plan.formula.begin(), plan.formula.end()),
        first_keys_(plan.first_keys) {
    if (plan.params.shape.items == 0) return;  // no rows, of which there is no map
    const ForwardConfig c = config_of(kernel);
    describe_work(c, plan);
    make_maps(c, plan);
    blocks_ = std::min(params_.items, plan.multiprocessors);
  }
  void enqueue(const ForwardParams& problem, unsigned* counters, void* stream) const override;

 private:
  void describe_work(const ForwardConfig& c, const LaunchPlan& plan);
  void make_maps(const ForwardConfig& c, const LaunchPlan& plan);
  void launch_compiled(const Launch& how, const sm90::KernelParams& params) const;

  const ForwardKernel& kernel_;
  int shared_bytes_, blocks_ = 0;
  std::vector<unsigned char> formula_;  // of a compiled kernel
  const int* first_keys_;
  bool has_keys_ = false;
  sm90::KernelParams params_{};
};

void Sm90Launch::describe_work(const ForwardConfig& c, const LaunchPlan& plan) {
  const ForwardParams& p = plan.params;
  const Tensors& t = plan.problem.tensors;
  params_.query_path = p.pack == 1 ? sm90::QueryPath::box : sm90::QueryPath::rows;
  params_.query_rows = t.query.rank() == 4 ? int(rows_of(t.query)) : 0;
  params_.key_rows = t.key.rank() == 4 ? int(rows_of(t.key)) : 0;
  params_.items = int(p.shape.items);
  params_.order =
      sm90_order(plan.geometry, p, kernel_.compiled == nullptr ? rises(p.mask.range) : plan.rising);
  const bool even = p.work == nullptr && !plan.geometry.lengths_on_device &&
                    params_.order.section == 0 && !has_idle_warpgroups(c, plan.geometry, p);
  params_.turn = even ? sm90::Turn::fixed : sm90::Turn::counted;
}

void Sm90Launch::make_maps(const ForwardConfig& c, const LaunchPlan& plan) {
  const Tensors& t = plan.problem.tensors;
  const auto box = [&](const TensorView& tensor, int rows) {
    return column_box(head_tensor(tensor.with_data(plan.device_memory)), rows);
  };
  // Where no sequence has keys none are loaded, but a map must describe something: Q, whose rows
  // are the work.
  has_keys_ = rows_of(t.key) != 0;
  const TensorView &key = has_keys_ ? t.key : t.query,
                   &value = has_keys_ ? core::value_of(t, plan.problem.options) : t.query;
  if (params_.query_path == sm90::QueryPath::box)
    params_.query = encode(box(t.query, ForwardConfig::warpgroup_rows));
  params_.key = encode(box(key, c.tile_keys));
  params_.value = encode(box(value, c.tile_keys));
  const TensorBox out = box(t.out, 16);  // a warp's rows
  params_.output_path = output_path(c, plan, out);
  if (params_.output_path == sm90::OutputPath::box) params_.out = encode(out);
}

void Sm90Launch::enqueue(const ForwardParams& problem, unsigned* counters, void* stream) const {
  if (blocks_ == 0) return;
  const sm90::KernelParams& plan = params_;
  sm90::KernelParams params{plan.query,       plan.key,        plan.value, plan.out,
                            plan.output_path, plan.query_path, plan.turn,  plan.items,
                            plan.query_rows,  plan.key_rows,   counters,   plan.order,
                            problem};
  if (params.query_path == sm90::QueryPath::box) replace_address(params.query, problem.query.data);
  replace_address(params.key, has_keys_ ? problem.key.data : problem.query.data);
  replace_address(params.value, has_keys_ ? problem.value.data : problem.query.data);
  if (reinterpret_cast<std::uintptr_t>(problem.out) % 16 != 0)
    params.output_path =
        config_of(kernel_).plain ? sm90::OutputPath::unaligned : sm90::OutputPath::general;
  if (params.output_path == sm90::OutputPath::box) replace_address(params.out, problem.out);
  const Launch how{kernel_.function, blocks_, kernel_.threads, shared_bytes_,
                   static_cast<cudaStream_t>(stream)};
  if (kernel_.compiled == nullptr)
    launch(how, kernel_.candidate.name, params);
  else
    launch_compiled(how, params);
}

/// The one parameter of a compiled kernel: KernelParams, then the formula.
void Sm90Launch::launch_compiled(const Launch& how, const sm90::KernelParams& params) const {
  alignas(64) unsigned char bytes[CompiledForward::most_params_bytes];
  std::memcpy(bytes, &params, sizeof params);
  std::memcpy(bytes + kernel_.compiled->first_keys_at, &first_keys_, sizeof first_keys_);
  std::memcpy(bytes + kernel_.compiled->formula_at, formula_.data(), formula_.size());
  launch_bytes(how, kernel_.candidate.name, bytes);
}

std::unique_ptr<const FamilyLaunch> family_launch(const ForwardKernel& kernel,
                                                  const LaunchPlan& plan) {
  return std::make_unique<Sm90Launch>(kernel, plan);
}

/// A kernel for this problem alone may do without what it does not ask for.
bool is_plain(const ForwardKernel& kernel, const core::Geometry& g,
              const planner::Schedule& schedule, const Problem& problem) {
  const ForwardParams p = describe_problem(g, schedule, problem);
  if (g.lengths_on_device || !leaves_fast(config_of(kernel), p, problem)) return false;
  const ExactWeights exact = exact_weights(g, problem.options.reproducibility, false);
  return std::none_of(g.sequences.begin(), g.sequences.end(), [&](const core::Sequence& s) {
    return s.query_length > 0 &&
           (1LL * s.query_length * g.value_dim < exact.outputs || s.key_length < exact.keys);
  });
}

// ---- table

template <int index> int shared_bytes(int, int) { return sm90::forward_shared_bytes<index>(); }

// Of one multiprocessor: wgmma makes 4096 FLOPs a cycle; 16 exponentials; 128 bytes of shared
// memory.
ForwardKernel row(const ForwardConfig& c, const char* name, const void* function,
                  int (*shared_bytes)(int, int), int index) {
  ForwardKernel kernel{{name,
                        Backend::cuda,
                        dtype_of(c.type),
                        {c.tile_rows(), c.tile_keys, c.tile_rows()},
                        "wgmma, TMA",
                        4096,
                        16,
                        128,
                        c.tile_rows()},
                       function,
                       c.threads(),
                       shared_bytes,
                       refusal,
                       index};
  kernel.pointer_alignment = 16;
  kernel.packed_heads = packed_heads;
  kernel.order = longest_first;
  kernel.family_launch = family_launch;
  kernel.counters = 2;
  kernel.blocks_a_multiprocessor = 1;
  // bench/results/2026-11-30-h200-choice.csv, 64 heads over 8: rows copied one by one.
  kernel.packed_cycles = 12000;
  kernel.candidate.cost =
      sm90_cost({c.head_dim, c.value_dim, kernel.candidate.tile,
                 c.formula == sm90::Formula::range ? Formulas::none : Formulas::read,
                 kernel.blocks_a_multiprocessor});
  return kernel;
}

template <int index> ForwardKernel registry_row() {
  constexpr ForwardConfig c = sm90::registry(index);
  static const std::string name = name_of(c);
  return row(c, name.c_str(), sm90::forward_function<index>(), shared_bytes<index>, index);
}

/// A functor may ask for its head: a list of rows is one.
int one_head(const ForwardKernel&, const core::Geometry&) { return 1; }

ForwardKernel compiled_row(const CompiledRow& of) {
  ForwardKernel kernel =
      row(config_of(of.kernel), of.name.c_str(), of.kernel.function, nullptr, -1);
  kernel.compiled = &of.kernel;
  kernel.packed_heads = one_head;
  return kernel;
}

std::vector<RunTimeRow> run_time_rows() {
  std::vector<RunTimeRow> rows;
  for (const HalfType type : {HalfType::bf16, HalfType::f16})
    for (const int shape : {0, straddled, 1, 2, 3, 4, 5}) {
      RunTimeRow row{{jit::Family::sm90, type, shape}, {}, {}};
      row.kernel.dtype = dtype_of(type);
      row.kernel.shape = shape;
      const ForwardConfig c = config_of(row.kernel);
      row.name = kernel_name("sm90", type, c.head_dim, c.value_dim) + " " +
                 std::to_string(c.tile_rows()) + "x" + std::to_string(c.tile_keys) + " nvrtc";
      rows.push_back(std::move(row));
    }
  return rows;
}

ForwardKernel run_time_row(const RunTimeRow& of) {
  ForwardKernel kernel = row(config_of(of.kernel), of.name.c_str(), nullptr, nullptr, -1);
  kernel.compiled = &of.kernel;
  kernel.at_run_time = &of.shape;
  kernel.is_plain = is_plain;
  kernel.packed_heads = one_head;
  return kernel;
}

template <int... index>
std::array<ForwardKernel, sizeof...(index)> rows(std::integer_sequence<int, index...>) {
  return {registry_row<index>()...};
}

}  // namespace

std::span<const ForwardKernel> compiled_kernels() {
  static const std::vector<ForwardKernel> table = [] {
    std::vector<ForwardKernel> rows;
    for (const CompiledRow& of : compiled_rows()) rows.push_back(compiled_row(of));
    return rows;
  }();
  return table;
}

std::span<const ForwardKernel> sm90_run_time_kernels() {
  static const std::vector<RunTimeRow> rows = run_time_rows();
  static const std::vector<ForwardKernel> table = kernels_of(rows, run_time_row);
  return table;
}

std::span<const ForwardKernel> sm90_kernels() {
  static const auto table = rows(std::make_integer_sequence<int, sm90::registry_size>{});
  return table;
}

}  // namespace tilefold::cuda
