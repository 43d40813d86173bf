// The kernels of a run, by their index in kernels().
#pragma once

#include "cpu/tile_kernel.hpp"
#include "plan/schedule.hpp"

namespace tilefold::cpu {

/// The kernels of a run. Which one computes an item depends on its sequence and rows alone.
template <class F> struct KernelSet {
  const TileKernel<F>& wide;
  /// Takes the place of `precise` in items of few rows: its bits are the same.
  const TileKernel<F>& narrow;
  /// Weights in f32 or f64; the same as `wide` where that rounds no weight.
  const TileKernel<F>& precise;

  const TileKernel<F>& of(const core::Geometry& geometry, const planner::WorkItem& item) const {
    const core::Sequence& s = geometry.sequences[std::size_t(item.sequence)];
    if (&wide != &precise && outputs_of_head(geometry, s) >= typical_outputs) return wide;
    return item.last_row - item.first_row <= narrow.lanes() ? narrow : precise;
  }

  /// Weights rounded to bf16 err as much as the eager yardstick's, with other signs. Over many
  /// outputs of a head the largest errors agree; over few they differ by more than the accuracy
  /// rule's factor of 2 (docs/numerics.md: in 5 % of draws with 5 outputs, and once in random
  /// problems with 4 rows of 256).
  static constexpr std::int64_t typical_outputs = 8192;
  static std::int64_t outputs_of_head(const core::Geometry& geometry, const core::Sequence& s) {
    return std::int64_t(s.query_length) * geometry.value_dim;
  }
};

/// True where kernels()[index] is the f64 kernel.
bool is_double(int index);
KernelSet<float> float_set(int index);
KernelSet<double> double_set();

}  // namespace tilefold::cpu
