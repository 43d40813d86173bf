// The portable tile kernels, compiled once per Highway target and chosen at run time.
#pragma once

#include "cpu/tile_kernel.hpp"

namespace tilefold::cpu {

/// Wide kernels fill the registers with query rows; narrow ones waste fewer lanes on decode. Both
/// do the same operations in the same order in each lane, so a row's bits are those of either.
enum class LaneCount { wide, narrow };

const TileKernel<float>& highway_f32_kernel(LaneCount lanes);
const TileKernel<double>& highway_f64_kernel(LaneCount lanes);

/// How many of the compiled targets this machine can run.
int highway_target_count();
/// Tests only: every later dispatch of this process goes to one of them, 0 being the best.
void bind_highway_target(int index);

}  // namespace tilefold::cpu
