// stmatrix: four 8 x 8 matrices of 16-bit elements from a warp's registers to shared memory (PTX
// ISA, warp-level matrix store). sm_90.
#pragma once

namespace tilefold::cuda::ptx {

/// Lane l gives the address of row l % 8 of matrix l / 8, 16 bytes, aligned; lane 4 * r + c holds
/// elements 2c and 2c + 1 of row r of each matrix.
__device__ __forceinline__ void stmatrix_x4(unsigned address, const unsigned (&matrix)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(matrix[0]), "r"(matrix[1]), "r"(matrix[2]), "r"(matrix[3])
               : "memory");
}

}  // namespace tilefold::cuda::ptx
