// ldmatrix: four 8 x 8 matrices of 16-bit elements from shared memory to a warp's registers (PTX
// ISA 9.7.14.5.15). Lane l gives the address of row l % 8 of matrix l / 8; lane 4 * r + c receives
// elements 2c and 2c + 1 of row r of each matrix (of column r with _trans). Rows are 16 bytes,
// aligned.
#pragma once

#include "cuda/tile/ptx/address.cuh"

namespace tilefold::cuda::ptx {

__device__ __forceinline__ void ldmatrix_x4(unsigned (&matrix)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&matrix)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
               : "r"(address)
               : "memory");
}

/// 4 bytes to shared memory.
__device__ __forceinline__ void store_shared(unsigned address, unsigned word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

}  // namespace tilefold::cuda::ptx
