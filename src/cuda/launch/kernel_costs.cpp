#include "cuda/launch/kernel_costs.hpp"

#include <span>

namespace tilefold::cuda {

namespace {

/// Of kernels whose head dimensions have this mean or less.
struct Rate {
  int dim;
  double flops_per_cycle;  // of a multiprocessor that is full, both products
  double item_cycles, cut_cycles;
  enum class Origin { measured, estimated } origin;
};

// Measured rates are those that come closest to every point of the files below by the model of
// plan/cost.hpp: `scripts/fit_costs.py` prints them, 2026-12-01. Cycles are at 1980 MHz, the H200's
// highest clock, and hold what its power limit takes away: inside a kernel that runs cool a 128 x
// 128 tile of sm90 takes 2340 cycles by the card's counter (docs/kernels/forward_sm90.md), here
// 2782. Estimated ones lie between their neighbours.

// NVIDIA H200, 2026-12-01, commit 800224ae, bf16, `build/tilefold bench forward --set grid gqa
// window ragged`: bench/results/2026-12-01-h200-forward.csv, within a tenth but for 32768 causal,
// which runs at the power limit.
constexpr Rate sm90_rates[] = {
    {64, 2459, 3592, 70, Rate::Origin::measured},
    {96, 2740, 3980, 150, Rate::Origin::estimated},
    {128, 3015, 4371, 233, Rate::Origin::measured},
    {160, 3080, 4460, 700, Rate::Origin::estimated},
    {192, 3150, 4550, 1180, Rate::Origin::estimated},
    {256, 3281, 4737, 2136, Rate::Origin::measured},
};

// NVIDIA H200, 2026-11-30, commit b2cf5c48, bf16, `build/forward_bench time`, beside peers:
// bench/results/2026-11-30-h200-sm80-share.csv. On cards of 8.0, 8.6 and 8.9 nothing has been
// timed.
constexpr Rate sm80_rates[] = {
    {32, 1000, 6500, 900, Rate::Origin::estimated},
    {64, 1305, 9136, 1223, Rate::Origin::measured},
    {96, 1400, 10600, 500, Rate::Origin::estimated},
    {128, 1505, 14343, 396, Rate::Origin::measured},
    {160, 1450, 14200, 240, Rate::Origin::estimated},
    {192, 1420, 15700, 280, Rate::Origin::estimated},
    {256, 1340, 19517, 362, Rate::Origin::measured},
};

// Estimated: tiles of 32 keys through shared memory with plain loads, and an item that costs more
// than one of any other family, so that this one waits for a measurement before it is preferred.
constexpr Rate any_rates[] = {{1024, 64, 30000, 0, Rate::Origin::estimated}};

// Estimated: a key loop that reads formulas, and one that multiplies what rounding took off the
// weights, a third product of three.
constexpr double formula_share = 1.5, second_part_share = 1.5;
// Estimated: some 30 instructions of the machine for one of a formula, of which an element has 10
// or 20, where its two products take some 400.
constexpr double interpreter_share = 3;
// Estimated: one block of four warps leaves a multiprocessor a share of its time idle that a second
// would fill.
constexpr double alone_of_two = 0.65;

const Rate& rate_of(std::span<const Rate> rates, int dim) {
  for (const Rate& rate : rates)
    if (dim <= rate.dim) return rate;
  return rates.back();
}

planner::KernelCost cost_of(std::span<const Rate> rates, const CostShape& shape) {
  const int dims = shape.head_dim + shape.value_dim;
  const Rate& rate = rate_of(rates, dims / 2);
  const double flops = 2.0 * shape.tile.tile_queries * shape.tile.tile_keys * dims;
  const bool plain = shape.formulas == Formulas::none;
  planner::KernelCost cost;
  cost.blocks = shape.blocks_a_multiprocessor;
  cost.item_cycles = rate.item_cycles;
  cost.tile_cycles = flops * cost.blocks / rate.flops_per_cycle * (plain ? 1 : formula_share);
  cost.cut_cycles = rate.cut_cycles;
  cost.alone = cost.blocks == 1 ? 1 : alone_of_two;
  cost.measured = rate.origin == Rate::Origin::measured && plain;
  return cost;
}

}  // namespace

planner::KernelCost sm90_cost(const CostShape& shape) { return cost_of(sm90_rates, shape); }
planner::KernelCost sm80_cost(const CostShape& shape) { return cost_of(sm80_rates, shape); }
planner::KernelCost any_cost(const CostShape& shape) { return cost_of(any_rates, shape); }

planner::KernelCost with_interpreter(planner::KernelCost cost) {
  cost.tile_cycles *= interpreter_share;
  cost.measured = false;
  return cost;
}

planner::KernelCost with_second_parts(planner::KernelCost cost) {
  cost.tile_cycles *= second_part_share;
  cost.measured = false;
  return cost;
}

planner::KeyBand key_band(const RangeMask& range) {
  planner::KeyBand band;
  if (range.low != RangeMask::unbounded_low) band.low = range.low;
  if (range.high != RangeMask::unbounded_high) band.high = range.high;
  return band;
}

}  // namespace tilefold::cuda
