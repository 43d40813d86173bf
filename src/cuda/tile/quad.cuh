// The 4 lanes that share rows of a fragment.
#pragma once

namespace tilefold::cuda {

__device__ __forceinline__ float quad_max(float x) {
  x = ::fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return ::fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/// Word c of lane q becomes word q of lane c: 4-byte pieces of a row become 16 neighbouring bytes a
/// lane.
__device__ __forceinline__ void quad_transpose(unsigned (&word)[4], int lane) {
  constexpr unsigned all = 0xffffffffu;
  const bool odd = lane & 1, high = lane & 2;
  unsigned x = __shfl_xor_sync(all, odd ? word[0] : word[1], 1);
  unsigned y = __shfl_xor_sync(all, odd ? word[2] : word[3], 1);
  word[0] = odd ? x : word[0], word[1] = odd ? word[1] : x;
  word[2] = odd ? y : word[2], word[3] = odd ? word[3] : y;
  x = __shfl_xor_sync(all, high ? word[0] : word[2], 2);
  y = __shfl_xor_sync(all, high ? word[1] : word[3], 2);
  word[0] = high ? x : word[0], word[2] = high ? word[2] : x;
  word[1] = high ? y : word[1], word[3] = high ? word[3] : y;
}

}  // namespace tilefold::cuda
