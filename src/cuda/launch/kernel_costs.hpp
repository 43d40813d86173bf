// What the forward kernels cost (plan/cost.hpp), as far as it has been measured.
#pragma once

#include "cuda/kernels/forward_params.cuh"
#include "plan/cost.hpp"

namespace tilefold::cuda {

/// Whether a kernel reads formulas in its key loop.
enum class Formulas { none, read };

/// A kernel's shape as its cost depends on it.
struct CostShape {
  int head_dim, value_dim;
  planner::TileShape tile;
  Formulas formulas;
  int blocks_a_multiprocessor;
};
planner::KernelCost sm90_cost(const CostShape& shape);
planner::KernelCost sm80_cost(const CostShape& shape);
/// `head_dim` and `value_dim` are the problem's.
planner::KernelCost any_cost(const CostShape& shape);

/// A kernel that interprets its formula.
planner::KernelCost with_interpreter(planner::KernelCost cost);

/// A problem's weights that enter their product in two parts cost a third product.
planner::KernelCost with_second_parts(planner::KernelCost cost);

planner::KeyBand key_band(const RangeMask& range);

}  // namespace tilefold::cuda
