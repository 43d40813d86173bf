// merge(): partial results over disjoint keys become one.
#include <string>

#include "core/geometry.hpp"
#include "tilefold/attention.hpp"
#include "tilefold/fold.hpp"

namespace tilefold {

namespace {

// Rows of [B, S, H, D] with lse [B, H, S], or of [total, H, D] with lse [H, total].
struct RowIndex {
  std::int64_t sequence, row, head;
};

std::int64_t out_offset(const TensorView& out, RowIndex at) {
  if (out.rank() == 4)
    return at.sequence * out.stride(0) + at.row * out.stride(1) + at.head * out.stride(2);
  return at.row * out.stride(0) + at.head * out.stride(1);
}
std::int64_t lse_offset(const TensorView& lse, RowIndex at) {
  if (lse.rank() == 3)
    return at.sequence * lse.stride(0) + at.head * lse.stride(1) + at.row * lse.stride(2);
  return at.head * lse.stride(0) + at.row * lse.stride(1);
}

double real_at(const TensorView& tensor, std::int64_t offset) {
  return tensor.dtype() == DType::f64 ? tensor.as<double>()[offset]
                                      : double(tensor.as<float>()[offset]);
}

void store(const OutputView& tensor, std::int64_t offset, double value) {
  switch (tensor.dtype()) {
    case DType::f64: tensor.as<double>()[offset] = value; break;
    case DType::f32: tensor.as<float>()[offset] = float(value); break;
    case DType::f16: tensor.as<float16>()[offset] = round_to<float16>(float(value)); break;
    default: tensor.as<bfloat16>()[offset] = round_to<bfloat16>(float(value)); break;
  }
}

[[noreturn]] void refuse(ErrorCode code, const std::string& name, const TensorView& tensor,
                         const std::string& rule) {
  throw Error(code, name + " is " + tensor.to_string() + ": it must be " + rule);
}

Extents lse_shape(const TensorView& out) {
  return out.rank() == 4 ? Extents{out.dim(0), out.dim(2), out.dim(1)}
                         : Extents{out.dim(1), out.dim(0)};
}

void check_lse(const std::string& name, const TensorView& lse, const Extents& shape) {
  if (lse.dtype() != DType::f32 && lse.dtype() != DType::f64)
    refuse(ErrorCode::dtype_mismatch, name, lse, "f32 or f64");
  if (lse.shape() != shape)
    refuse(ErrorCode::shape_mismatch, name, lse,
           TensorView(nullptr, lse.dtype(), shape).to_string());
}

void check_rows(const std::string& name, const TensorView& tensor) {
  const int last = tensor.rank() - 1;
  if (tensor.dim(last) > 1 && tensor.stride(last) != 1)
    refuse(ErrorCode::stride_unsupported, name, tensor, "contiguous in its last axis");
  if (tensor.device() != Device::cpu())
    refuse(ErrorCode::device_mismatch, name, tensor, "on the host");
}

void check_part(const std::string& name, const PartialResult& part, const OutputView& out) {
  if (part.out.dtype() != DType::f32 && part.out.dtype() != DType::f64)
    refuse(ErrorCode::dtype_mismatch, name + ".out", part.out, "f32 or f64");
  if (part.out.shape() != out.shape())
    refuse(ErrorCode::shape_mismatch, name + ".out", part.out, "shaped as out, " + out.to_string());
  check_rows(name + ".out", part.out);
  check_lse(name + ".lse", part.lse, lse_shape(out));
}

void check(std::span<const PartialResult> parts, const OutputView& out, const OutputView& lse,
           const TensorView& sinks) {
  if (!out.present()) throw Error(ErrorCode::missing_argument, "out is absent");
  if (out.rank() != 3 && out.rank() != 4)
    refuse(ErrorCode::shape_mismatch, "out", out, "[B, S, H, D] or [total, H, D]");
  if (!is_float(out.dtype()) || is_fp8(out.dtype()))
    refuse(ErrorCode::dtype_mismatch, "out", out, "f64, f32, f16 or bf16");
  check_rows("out", out);
  if (lse.present()) check_lse("lse", lse, lse_shape(out));
  if (sinks.present() &&
      (sinks.dtype() != DType::f32 || sinks.rank() != 1 || sinks.dim(0) != out.dim(out.rank() - 2)))
    refuse(ErrorCode::shape_mismatch, "sinks", sinks, "f32 [heads of out]");
  for (std::size_t i = 0; i < parts.size(); ++i)
    check_part("parts[" + std::to_string(i) + "]", parts[i], out);

  core::require_usable("out", out);
  core::require_usable("lse", lse);
  core::require_usable("sinks", sinks);
  core::require_separate_elements("out", out);
  core::require_separate_elements("lse", lse);
  core::require_disjoint("out", out, "lse", lse);
  for (const auto& [name, output] : {std::pair{"out", &out}, std::pair{"lse", &lse}}) {
    core::require_disjoint(name, *output, "sinks", sinks);
    for (const PartialResult& part : parts) {
      core::require_usable("a part's out", part.out);
      core::require_usable("a part's lse", part.lse);
      core::require_disjoint(name, *output, "a part's out", part.out);
      core::require_disjoint(name, *output, "a part's lse", part.lse);
    }
  }
}

// The part that all sides make, and each side's factor: exp(lse - max) / sum.
fold::Part<double> join_all(std::span<const PartialResult> parts, const TensorView& sinks,
                            RowIndex at) {
  fold::Part<double> joint = fold::Part<double>::empty();
  fold::Weights<double> weights;
  for (const PartialResult& part : parts)
    joint = fold::join(joint, fold::from_lse(real_at(part.lse, lse_offset(part.lse, at))), weights);
  if (sinks.present()) {
    const double sink = sinks.as<float>()[at.head * sinks.stride(0)];
    joint = fold::join(joint, fold::from_lse(sink), weights);
  }
  return joint;
}

void merge_row(std::span<const PartialResult> parts, const OutputView& out, const OutputView& lse,
               const TensorView& sinks, RowIndex at) {
  const fold::Part<double> joint = join_all(parts, sinks, at);
  const std::int64_t columns = out.dim(out.rank() - 1), to = out_offset(out, at);
  for (std::int64_t d = 0; d < columns; ++d) {
    double sum = 0;
    for (const PartialResult& part : parts) {
      const double part_lse = real_at(part.lse, lse_offset(part.lse, at));
      if (fold::from_lse(part_lse).is_empty()) continue;  // whatever bits its O holds
      sum += fold::weight(part_lse, joint.max) * real_at(part.out, out_offset(part.out, at) + d);
    }
    store(out, to + d, joint.is_empty() ? 0.0 : sum / joint.sum);
  }
  if (lse.present()) store(lse, lse_offset(lse, at), fold::log_sum(joint));
}

}  // namespace

void merge(std::span<const PartialResult> parts, const OutputView& out, const OutputView& lse,
           const TensorView& sinks) {
  check(parts, out, lse, sinks);
  const bool dense = out.rank() == 4;
  const std::int64_t sequences = dense ? out.dim(0) : 1, rows = out.dim(dense ? 1 : 0);
  const std::int64_t heads = out.dim(out.rank() - 2);
  for (std::int64_t b = 0; b < sequences; ++b)
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t h = 0; h < heads; ++h) merge_row(parts, out, lse, sinks, {b, i, h});
}

}  // namespace tilefold
