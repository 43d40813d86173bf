// The kernels of a run, by their index in kernels().
#pragma once

#include "cpu/tile_kernel.hpp"
#include "plan/schedule.hpp"

namespace tilefold::cpu {

/// The kernel of a run, and the one that takes its place in items of few rows: its bits are the same.
template <class F>
struct KernelPair {
  const TileKernel<F>& wide;
  const TileKernel<F>& narrow;
  const TileKernel<F>& of(const planner::WorkItem& item) const {
    return item.last_row - item.first_row <= narrow.lanes() ? narrow : wide;
  }
};

/// True where kernels()[index] is the f64 kernel.
bool is_double(int index);
KernelPair<float> float_pair(int index);
KernelPair<double> double_pair();

}  // namespace tilefold::cpu
