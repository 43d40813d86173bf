// Where things lie in a block's shared memory.
#pragma once

#include "cuda/kernels/any/config.hpp"
#include "cuda/kernels/forward_params.cuh"

namespace tilefold::cuda::any {

template <class Chosen> struct SharedPlan {
  static constexpr ForwardConfig config = Chosen::value;

  RowPlace* places;           // [tile_keys]; outer = -1: the key is not read
  float* query;               // [tile_rows][head_dim]
  float* output;              // [tile_rows][value_dim], not yet divided
  float* chunk;               // [tile_keys][chunk_stride], some columns of K or of V
  float* scores;              // [tile_rows][score_stride], then weights
  float* scales;              // [tile_keys], of K or of V
  float *max, *sum, *factor;  // [tile_rows]
  int* seen;                  // [warps][tile_keys], 1: a row of that warp sees the key
  QueryPlace* rows;           // [tile_rows]

  __device__ SharedPlan(char* base, int head_dim, int value_dim) {
    places = reinterpret_cast<RowPlace*>(base);
    query = reinterpret_cast<float*>(places + config.tile_keys);
    output = query + config.tile_rows * head_dim;
    chunk = output + config.tile_rows * value_dim;
    scores = chunk + config.tile_keys * config.chunk_stride;
    scales = scores + config.tile_rows * config.score_stride;
    max = scales + config.tile_keys;
    sum = max + config.tile_rows;
    factor = sum + config.tile_rows;
    seen = reinterpret_cast<int*>(factor + config.tile_rows);
    rows = reinterpret_cast<QueryPlace*>(seen + config.warps * config.tile_keys);
  }
};

}  // namespace tilefold::cuda::any
