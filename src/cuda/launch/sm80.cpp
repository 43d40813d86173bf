// The table of tensor-core kernels: one row an entry of kernels/sm80/registry.hpp.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "cuda/kernels/sm80/functions.hpp"
#include "cuda/kernels/sm80/registry.hpp"
#include "cuda/launch/forward_kernel.hpp"
#include "cuda/launch/kernel_costs.hpp"
#include "cuda/launch/run_time.hpp"
#include "cuda/launch/tensor_core.hpp"
#include "cuda/runtime/device.hpp"
#include "cuda/runtime/launch.hpp"

namespace tilefold::cuda {

namespace {

using sm80::ForwardConfig;

std::string name_of(const ForwardConfig& c) {
  return kernel_name("sm80", c.type, c.head_dim, c.value_dim) +
         (c.shares_rows() ? " columns " : " ") + std::to_string(c.tile_rows()) + "x" +
         std::to_string(c.tile_keys) + (c.formula == sm80::Formula::plain ? "" : " formula");
}

constexpr int copy_bytes = 16;

/// Whether rows start on 16 bytes, what one cp.async moves: 8 elements.
bool rows_aligned(const TensorView& tensor) {
  for (int axis = 0; axis + 1 < tensor.rank(); ++axis)
    if (tensor.stride(axis) % 8 != 0) return false;
  return reinterpret_cast<std::uintptr_t>(tensor.data()) % copy_bytes == 0;
}

std::optional<std::string> layout_refusal(const ForwardConfig& c, const core::Geometry& geometry,
                                          const Problem& problem) {
  if (auto reason = head_refusal(c.head_dim, c.value_dim, geometry, "cp.async")) return reason;
  const Tensors& t = problem.tensors;
  for (const TensorView* tensor : {&t.query, &t.key, &t.value})
    if (tensor->present() && !rows_aligned(*tensor))
      return "cp.async moves 16 bytes: rows of query, key and value must start on multiples of 16";
  return std::nullopt;
}

std::optional<std::string> formula_refusal(const ForwardConfig& c, const core::Geometry& geometry,
                                           const Problem& problem) {
  if (c.formula == sm80::Formula::changed) return std::nullopt;
  if (geometry.key_layout == core::KeyLayout::paged) return "its keys are not paged";
  if (auto reason = range_refusal(problem)) return reason;
  // Scores stay unscaled, scale * log2(e) enters the exponent; a sign moves into Q.
  return scale_refusal(std::fabs(geometry.scale));
}

/// Without a device every block fits, as on the H200 that plans assume.
std::optional<std::string> device_refusal(const ForwardConfig& c, const Problem& problem) {
  const DeviceProperties* p = device_properties(problem.tensors.query.device().index);
  if (p == nullptr || c.shared_bytes() <= p->shared_bytes_a_block) return std::nullopt;
  return "a block of it takes " + std::to_string(c.shared_bytes()) +
         " bytes of shared memory: " + p->name + " has " + std::to_string(p->shared_bytes_a_block);
}

std::optional<std::string> refusal(const ForwardKernel& kernel, const core::Geometry& geometry,
                                   const Problem& problem) {
  const ForwardConfig c = sm80::registry(kernel.index);
  if (auto reason = device_refusal(c, problem)) return reason;
  if (auto reason = type_refusal(c.type, geometry, problem,
                                 "; cp.async copies keys and values as they are stored"))
    return reason;
  if (auto reason = layout_refusal(c, geometry, problem)) return reason;
  if (kernel.at_run_time != nullptr) return run_time_refusal(geometry, problem);
  return formula_refusal(c, geometry, problem);
}

/// The same launch, with the formula behind the parameters.
class Sm80FormulaLaunch final : public FamilyLaunch {
 public:
  Sm80FormulaLaunch(const ForwardKernel& kernel, const LaunchPlan& plan)
      : kernel_(kernel),
        shared_bytes_(plan.shared_bytes),
        formula_(plan.formula.begin(), plan.formula.end()) {}

  void enqueue(const ForwardParams& params, unsigned*, void* stream) const override {
    alignas(64) unsigned char bytes[CompiledForward::most_params_bytes];
    std::memcpy(bytes, &params, sizeof params);
    std::memcpy(bytes + kernel_.compiled->formula_at, formula_.data(), formula_.size());
    launch_bytes({kernel_.function, params.shape.items, kernel_.threads, shared_bytes_,
                  static_cast<cudaStream_t>(stream)},
                 kernel_.candidate.name, bytes);
  }

 private:
  const ForwardKernel& kernel_;
  int shared_bytes_;
  std::vector<unsigned char> formula_;
};

std::unique_ptr<const FamilyLaunch> formula_launch(const ForwardKernel& kernel,
                                                   const LaunchPlan& plan) {
  return std::make_unique<Sm80FormulaLaunch>(kernel, plan);
}

template <int index> int shared_bytes(int, int) { return sm80::registry(index).shared_bytes(); }

// Of one multiprocessor: mma.sync makes 2048 FLOPs a cycle on A100 and about that on Hopper, where
// only wgmma reaches the full rate; 16 exponentials; 128 bytes of shared memory.
ForwardKernel row_of(const ForwardConfig& c, const char* name, int index) {
  ForwardKernel kernel{{name,
                        Backend::cuda,
                        dtype_of(c.type),
                        {c.tile_rows(), c.tile_keys, c.tile_rows()},
                        "mma.sync, cp.async",
                        2048,
                        16,
                        128,
                        c.warp_rows()},
                       nullptr,
                       c.threads(),
                       nullptr,
                       refusal,
                       index,
                       copy_bytes};
  kernel.candidate.cost =
      sm80_cost({c.head_dim, c.value_dim, kernel.candidate.tile,
                 c.formula == sm80::Formula::plain ? Formulas::none : Formulas::read,
                 kernel.blocks_a_multiprocessor});
  return kernel;
}

template <int index> ForwardKernel row() {
  constexpr ForwardConfig c = sm80::registry(index);
  static const std::string name = name_of(c);
  ForwardKernel kernel = row_of(c, name.c_str(), index);
  kernel.function = sm80::forward_function<index>();
  kernel.shared_bytes = shared_bytes<index>;
  return kernel;
}

/// The rows whose formulas are read as data, once more with formulas compiled in.
std::vector<RunTimeRow> run_time_rows() {
  std::vector<RunTimeRow> rows;
  for (int index = 0; index < sm80::registry_size; ++index) {
    const ForwardConfig c = sm80::registry(index);
    if (c.formula != sm80::Formula::changed) continue;
    const int tile = index % (sm80::registry_size / 2) - sm80::plain_count;
    RunTimeRow row{{jit::Family::sm80, c.type, tile}, {}, {}};
    row.kernel.dtype = dtype_of(c.type);
    row.kernel.shape = index;
    row.name = kernel_name("sm80", c.type, c.head_dim, c.value_dim) + " " +
               std::to_string(c.tile_rows()) + "x" + std::to_string(c.tile_keys) + " nvrtc";
    rows.push_back(std::move(row));
  }
  return rows;
}

ForwardKernel run_time_row(const RunTimeRow& of) {
  ForwardKernel kernel = row_of(sm80::registry(of.kernel.shape), of.name.c_str(), of.kernel.shape);
  kernel.compiled = &of.kernel;
  kernel.at_run_time = &of.shape;
  kernel.family_launch = formula_launch;
  return kernel;
}

template <int... index>
std::array<ForwardKernel, sizeof...(index)> rows(std::integer_sequence<int, index...>) {
  return {row<index>()...};
}

}  // namespace

std::span<const ForwardKernel> sm80_run_time_kernels() {
  static const std::vector<RunTimeRow> rows = run_time_rows();
  static const std::vector<ForwardKernel> table = kernels_of(rows, run_time_row);
  return table;
}

std::span<const ForwardKernel> sm80_kernels() {
  static const auto table = rows(std::make_integer_sequence<int, sm80::registry_size>{});
  return table;
}

}  // namespace tilefold::cuda
