// Lengths and page tables of a problem whose mask is interpreted: a page that it hides from every
// row needs no entry in the table.
//
// Grid: as that of cuda/kernels/read_lengths.cuh.
#pragma once

#include "cuda/kernels/any/programs.hpp"
#include "cuda/kernels/read_lengths.cuh"

namespace tilefold::cuda::any {

// One block: for more on a multiprocessor ptxas takes 64 registers and spills.
__global__ void __launch_bounds__(128, 1)
    read_lengths_interpreted(const __grid_constant__ ForwardParams p,
                             const __grid_constant__ LengthSources from,
                             const __grid_constant__ FormulaPrograms programs) {
  read_lengths_of(p, from, [&](const SequenceInfo& s, PageKeys keys) {
    const int sequence = int(blockIdx.x);
    if (hides(p, s, sequence, keys)) return true;
    if (programs.mask.count == 0) return false;
    const MaskTile tile{
        sequence, {0, s.query_length - 1}, {keys.first, keys.last}, {0, p.query_heads - 1}};
    return mask_answer(programs.mask, p, s, tile).no();
  });
}

}  // namespace tilefold::cuda::any
