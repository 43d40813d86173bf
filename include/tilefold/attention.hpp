// tilefold's front door: exact attention in one call, and the merge of partial results.
//
//   #include <tilefold/attention.hpp>
//   tilefold::attend(q, k, v, out, {.mask = tilefold::causal() && tilefold::window(4095)});
#pragma once

#include <span>

#include "tilefold/error.hpp"
#include "tilefold/plan.hpp"

namespace tilefold {

/// softmax(scale * q k^T) v for dense [B, S, H, D] tensors; `lse` may be absent.
/// Plans and runs once: loops over layers should keep a Plan. Throws Error before writing anything.
void attend(const TensorView& query, const TensorView& key, const TensorView& value,
            const OutputView& out, const Options& options = {}, const OutputView& lse = {});

/// The same for any layout.
void attend(const Problem& problem);

/// Attention over a subset of the keys: normalised output and natural-log denominator.
struct PartialResult {
  TensorView out{};  // [..., D] f32 or f64; rows in the order of lse's elements, see merge()
  TensorView lse{};  // f32 or f64
};

/// Joins partial results over disjoint sets of keys into `out` (any float dtype) and `lse` (may be
/// absent). Shapes: out [B, S, H, D] with lse [B, H, S], or out [total, H, D] with lse [H, total].
/// The empty part (O = 0, lse = -inf) is the identity; no parts at all give O = 0, lse = -inf.
/// `sinks` [H] f32, where given, joins once more as a part without value.
/// Throws Error(shape_mismatch, dtype_mismatch, overlap, ...) before anything is written.
void merge(std::span<const PartialResult> parts, const OutputView& out, const OutputView& lse = {},
           const TensorView& sinks = {});

/// "0.1.0"
const char* version() noexcept;

}  // namespace tilefold
