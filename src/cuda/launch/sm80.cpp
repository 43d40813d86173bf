// The table of tensor-core kernels: one row an entry of kernels/sm80/registry.hpp.
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "cuda/kernels/sm80/functions.hpp"
#include "cuda/kernels/sm80/registry.hpp"
#include "cuda/launch/formula_data.hpp"
#include "cuda/launch/forward_kernel.hpp"
#include "cuda/runtime/device.hpp"

namespace tilefold::cuda {

namespace {

using sm80::ForwardConfig;

std::string name_of(const ForwardConfig& c) {
  const std::string dims = c.head_dim == c.value_dim
                               ? std::to_string(c.head_dim)
                               : std::to_string(c.head_dim) + "-" + std::to_string(c.value_dim);
  return std::string("sm80 ") + (c.type == HalfType::bf16 ? "bf16" : "f16") + " d" + dims +
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
  if (geometry.head_dim > c.head_dim || geometry.value_dim > c.value_dim)
    return "its tile holds head dimensions up to " + std::to_string(c.head_dim) + " and " +
           std::to_string(c.value_dim);
  if (geometry.head_dim % 8 != 0 || geometry.value_dim % 8 != 0)
    return "cp.async moves 8 elements: head dimensions must be multiples of 8";
  const Tensors& t = problem.tensors;
  for (const TensorView* tensor : {&t.query, &t.key, &t.value})
    if (tensor->present() && !rows_aligned(*tensor))
      return "cp.async moves 16 bytes: rows of query, key and value must start on multiples of 16";
  return std::nullopt;
}

std::optional<std::string> type_refusal(const ForwardConfig& c, const core::Geometry& geometry,
                                        const Problem& problem) {
  const DType type = c.type == HalfType::bf16 ? DType::bf16 : DType::f16;
  if (geometry.query_dtype != type || geometry.key_dtype != type || geometry.value_dtype != type)
    return std::string("it multiplies ") + (type == DType::bf16 ? "bf16" : "f16") +
           " with itself; cp.async copies keys and values as they are stored";
  const Tensors& t = problem.tensors;
  if (t.query_descale.scale.present() || t.key_descale.scale.present() ||
      t.value_descale.scale.present())
    return "it takes no descale tensors";
  return std::nullopt;
}

std::optional<std::string> formula_refusal(const ForwardConfig& c, const core::Geometry& geometry,
                                           const Problem& problem) {
  if (c.formula == sm80::Formula::changed) return std::nullopt;
  if (geometry.key_layout == core::KeyLayout::paged) return "its keys are not paged";
  std::string reason;
  const auto mask = mask_image(problem.options.mask.node(), reason);
  if (!mask || !mask->data.program.everything()) return "its mask is one range of keys a query";
  const auto steps = score_steps(problem, reason);
  if (!steps || !steps->empty()) return "it changes no scores";
  // Scores stay unscaled, scale * log2(e) enters the exponent: it must be a normal float, not 0.
  const double scale = std::fabs(geometry.scale);
  if (!(scale > 1e-30 && scale < 1e30)) return "its scale lies between 1e-30 and 1e30";
  return std::nullopt;
}

/// Without a device every block fits, as on the H200 that plans assume.
std::optional<std::string> device_refusal(const ForwardConfig& c, const Problem& problem) {
  const Device device = problem.tensors.query.device();
  const auto& devices = device_report().devices;
  if (device.index < 0 || device.index >= int(devices.size())) return std::nullopt;
  const DeviceProperties& p = devices[std::size_t(device.index)];
  if (c.shared_bytes() <= p.shared_bytes_a_block) return std::nullopt;
  return "a block of it takes " + std::to_string(c.shared_bytes()) +
         " bytes of shared memory: " + p.name + " has " + std::to_string(p.shared_bytes_a_block);
}

std::optional<std::string> refusal(const ForwardKernel& kernel, const core::Geometry& geometry,
                                   const Problem& problem) {
  const ForwardConfig c = sm80::registry(kernel.index);
  if (auto reason = device_refusal(c, problem)) return reason;
  if (auto reason = type_refusal(c, geometry, problem)) return reason;
  if (auto reason = layout_refusal(c, geometry, problem)) return reason;
  return formula_refusal(c, geometry, problem);
}

template <int index> int shared_bytes(int, int) { return sm80::registry(index).shared_bytes(); }

// Of one multiprocessor: mma.sync makes 2048 FLOPs a cycle on A100 and about that on Hopper, where
// only wgmma reaches the full rate; 16 exponentials; 128 bytes of shared memory.
template <int index> ForwardKernel row() {
  constexpr ForwardConfig c = sm80::registry(index);
  static const std::string name = name_of(c);
  return {{name.c_str(),
           Backend::cuda,
           c.type == HalfType::bf16 ? DType::bf16 : DType::f16,
           {c.tile_rows(), c.tile_keys, c.tile_rows()},
           "mma.sync, cp.async",
           2048,
           16,
           128,
           c.warp_rows()},
          sm80::forward_function<index>(),
          c.threads(),
          shared_bytes<index>,
          refusal,
          index,
          copy_bytes};
}

template <int... index>
std::array<ForwardKernel, sizeof...(index)> rows(std::integer_sequence<int, index...>) {
  return {row<index>()...};
}

}  // namespace

std::span<const ForwardKernel> sm80_kernels() {
  static const auto table = rows(std::make_integer_sequence<int, sm80::registry_size>{});
  return table;
}

}  // namespace tilefold::cuda
