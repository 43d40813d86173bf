// CPU kernels that multiply in bf16 and add in f32: VDPBF16PS and the AMX tiles.
//
//   if (const TileKernel<float>* kernel = bf16_amx_kernel()) ...;   // element() is DType::bf16
//
// docs/kernels/cpu_bf16.md shows the layouts and what they cost. Subnormal products and bf16 inputs
// count as 0: the instructions flush them.
#pragma once

#include "cpu/tile_kernel.hpp"

namespace tilefold::cpu {

/// Null where the CPU or the operating system lacks AVX512-BF16. The pointer stays valid for ever.
const TileKernel<float>* bf16_avx512_kernel();

/// Null where the CPU lacks AMX-BF16 or the operating system refuses the tile registers. The first
/// call asks for them, for the whole process.
const TileKernel<float>* bf16_amx_kernel();

}  // namespace tilefold::cpu
