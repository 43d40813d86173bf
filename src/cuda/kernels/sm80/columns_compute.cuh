// The two products where four warps share 64 rows (Share::columns).
//
// Where a row of output fills a warp's registers, a warp can own 16 rows only, and shared memory
// must then move 16 bytes of K or V a lane for two products: more than it can. Here a warp of four
// has the scores of 32 rows and half the tile's keys, and the output of all 64 rows in a quarter of
// the columns: 4 ldmatrix a 8 products, and 8 a 32, in place of 5 and 16. The weights pass through
// shared memory once, 1/32 of that traffic.
#pragma once

#include "cuda/kernels/sm80/config.hpp"
#include "cuda/kernels/sm80/lanes.hpp"
#include "cuda/kernels/sm80/shared_plan.cuh"
#include "cuda/tile/fragment.cuh"
#include "cuda/tile/online_softmax.cuh"
#include "cuda/tile/ptx/ldmatrix.cuh"
#include "cuda/tile/ptx/mma.cuh"
#include "cuda/tile/ptx/tid.cuh"
#include "cuda/tile/swizzle.cuh"

namespace tilefold::cuda::sm80 {

/// What the warps of one row tell each other of it.
struct SharedRow {
  float half[2];    // of the warp with the tile's first keys, of the other: a maximum, or a sum
  float sums[2];    // of their weights so far, while `half` is a maximum
  float factor;     // what the output is multiplied by
  int stored;       // whether the row is an output row
  long long place;  // of the output row, in elements
};

static_assert(sizeof(SharedRow) == 32, "ForwardConfig::shared_row_bytes");

/// Where a warp stands in its block: in a group of four.
struct WarpPlace {
  int first_row;  // of the group's 64
  int rows_half;  // which 32 rows its scores are of
  int keys_half;  // and which half of the keys
  int quarter;    // which columns of the output it has
  __device__ __forceinline__ static WarpPlace again() {
    const int warp = ptx::thread_again() / 32;
    return {warp / 4 * 64, warp / 2 % 2, warp % 2, warp % 4};
  }
  __device__ __forceinline__ int score_row() const { return first_row + 32 * rows_half; }
};

template <class Chosen> struct ColumnComputer {
  static constexpr ForwardConfig config = Chosen::value;
  using Plan = SharedPlan<Chosen>;
  static constexpr int rows = 4;  // a thread's, of the scores; of the output 8
  static constexpr int keys = config.tile_keys / 2, columns = config.value_dim / 4;
  using Scores = float[2][keys / 8][4];
  using Output = float[4][columns / 8][4];
  using QueryTile = Swizzle<config.head_dim>;
  using ValueTile = Swizzle<config.value_dim>;
  using WeightTile = Swizzle<config.tile_keys>;

  OnlineSoftmax<rows> softmax;  // `sum` counts this warp's keys only
  float slack[rows];            // by the row's sum when the block last settled
  Output output;

  __device__ __forceinline__ ColumnComputer() : softmax() {
    clear(output);
#pragma unroll
    for (float& s : slack) s = 0.0f;
  }

  template <int blocks, int groups>
  static __device__ __forceinline__ void clear(float (&sums)[blocks][groups][4]) {
#pragma unroll
    for (int block = 0; block < blocks; ++block)
#pragma unroll
      for (int g = 0; g < groups; ++g)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[block][g][e] = 0.0f;
  }

  /// scores = Q K^T of 32 rows and `keys` keys. Fragments are asked for one step ahead.
  __device__ __forceinline__ void query_key(Scores& scores, unsigned shared) const {
    const int lane = ptx::thread_again() % 32;
    const WarpPlace at = WarpPlace::again();
    const MatrixRow row = query_matrix_row(lane), key = key_matrix_row(lane);
    const auto query_lane = LaneAddress<config.head_dim>::of(row.row, row.chunk);
    const auto key_lane = LaneAddress<config.head_dim>::of(key.row, key.chunk);
    const unsigned query_tile =
        shared + Plan::query + unsigned(at.score_row() * QueryTile::row_bytes);
    const unsigned key_tile =
        shared + Plan::key(0) + unsigned(at.keys_half * keys * QueryTile::row_bytes);
    constexpr int steps = config.head_dim / 16, pairs = keys / 16;
    unsigned a[2][2][4], b[2][pairs][4];
    const auto read = [&](int step) {
#pragma unroll
      for (int block = 0; block < 2; ++block)
        ptx::ldmatrix_x4(a[step % 2][block],
                         query_tile + query_lane.at(step) + 16 * block * QueryTile::row_bytes);
#pragma unroll
      for (int pair = 0; pair < pairs; ++pair)
        ptx::ldmatrix_x4(b[step % 2][pair],
                         key_tile + key_lane.at(step) + 16 * pair * QueryTile::row_bytes);
    };
    clear(scores);
    read(0);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      if (step + 1 < steps) read(step + 1);
#pragma unroll
      for (int pair = 0; pair < pairs; ++pair)
#pragma unroll
        for (int block = 0; block < 2; ++block) {
          const unsigned(&k)[4] = b[step % 2][pair];
          ptx::mma_16x8x16<config.type>(scores[block][2 * pair], a[step % 2][block], k[0], k[1]);
          ptx::mma_16x8x16<config.type>(scores[block][2 * pair + 1], a[step % 2][block], k[2],
                                        k[3]);
        }
    }
  }

  static __device__ __forceinline__ void hide_all(Scores& scores) {
#pragma unroll
    for (int block = 0; block < 2; ++block)
#pragma unroll
      for (int g = 0; g < keys / 8; ++g)
#pragma unroll
        for (int e = 0; e < 4; ++e) scores[block][g][e] = -score::infinity<float>();
  }

  /// What a thread keeps of its weights of a tile: their sums by row, and what rounding took off.
  template <WeightParts parts> struct Weights {
    float sums[rows];
    unsigned rest[parts == WeightParts::two ? keys / 8 : 1][rows];
  };

  /// Where this thread's pairs of weights stand in shared memory.
  struct WeightPlace {
    unsigned tile;
    WeightLane<config.tile_keys> lane;
    int first_chunk;

    __device__ __forceinline__ static WeightPlace again(unsigned shared) {
      const WarpPlace at = WarpPlace::again();
      return {shared + Plan::weights + unsigned(at.score_row() * WeightTile::row_bytes),
              WeightLane<config.tile_keys>::of(ptx::thread_again() % 32), at.keys_half * keys / 8};
    }
    __device__ __forceinline__ unsigned at(int row, int group) const {
      return tile + lane.at(row, first_chunk + group);
    }
  };

  /// Writes exp2(scores), rounded, as the weights that all four warps will read.
  template <WeightParts parts>
  __device__ __forceinline__ void write_weights(const Scores& scores,
                                                const Exponent<rows>& exponent, unsigned shared,
                                                Weights<parts>& weights) const {
    const WeightPlace place = WeightPlace::again(shared);
#pragma unroll
    for (int r = 0; r < rows; ++r) weights.sums[r] = 0.0f;
#pragma unroll
    for (int g = 0; g < keys / 8; ++g) {
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const float(&s)[4] = scores[r / 2][g];
        const int e = r % 2 * 2;
        const float w0 = ptx::exp2(::fmaf(s[e], exponent.factor, -exponent.shift[r]));
        const float w1 = ptx::exp2(::fmaf(s[e + 1], exponent.factor, -exponent.shift[r]));
        weights.sums[r] += w0 + w1;
        const unsigned pair = ptx::pack<config.type>(w0, w1);
        ptx::store_shared(place.at(r, g), pair);
        if constexpr (parts == WeightParts::two) {
          const auto rounded = ptx::unpack<config.type>(pair);
          weights.rest[g][r] = ptx::pack<config.type>(w0 - rounded.low, w1 - rounded.high);
        }
      }
    }
  }

  /// What rounding took off, in place of the weights: for their second product.
  __device__ __forceinline__ void write_rest(const Weights<WeightParts::two>& weights,
                                             unsigned shared) const {
    const WeightPlace place = WeightPlace::again(shared);
#pragma unroll
    for (int g = 0; g < keys / 8; ++g)
#pragma unroll
      for (int r = 0; r < rows; ++r) ptx::store_shared(place.at(r, g), weights.rest[g][r]);
  }

  /// The weights by the maxima that stand. True: they may not be used, a score passes its maximum
  /// too far or is too large for one fma. Changes nothing but shared memory, so that the tile can
  /// be weighed again.
  template <WeightParts parts>
  __device__ __forceinline__ bool weigh(const Scores& scores, float c, unsigned shared,
                                        Weights<parts>& weights) const {
    float tile_top[rows];
    bool exact;
    const Exponent<rows> exponent = softmax.simple_exponent(c, exact);
    const bool passed = softmax.passes(scores, tile_top, c, slack);
    write_weights(scores, exponent, shared, weights);
    return passed || !exact;
  }

  /// The weights anew, after the warps of each row have agreed on its maximum. All threads of the
  /// block call it.
  template <WeightParts parts>
  __device__ __forceinline__ void weigh_again(Scores& scores, float c, unsigned shared,
                                              SharedRow* shared_rows, Weights<parts>& weights) {
    const int lane = ptx::thread_again() % 32;
    const WarpPlace at = WarpPlace::again();
    SharedRow* mine = shared_rows + at.score_row() + lane / 4;
    float tile_top[rows];
    softmax.passes(scores, tile_top, c, slack);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      tile_top[r] = quad_max(tile_top[r]);
      const float sum = quad_sum(softmax.sum[r]);
      if (lane % 4 != 0) continue;
      mine[8 * r].half[at.keys_half] = tile_top[r];
      mine[8 * r].sums[at.keys_half] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const SharedRow& row = mine[8 * r];
      const float sum = row.sums[0] + row.sums[1], top = ::fmaxf(row.half[0], row.half[1]);
      const float factor = softmax.raise(r, top, c, softmax.slack_of(sum));
      // Never above what the sum allows: that neighbours settle changes no row's decision.
      slack[r] = softmax.slack_of(sum * factor);
      if (lane % 4 == 0 && at.keys_half == 0) mine[8 * r].factor = factor;
    }
    const Exponent<rows> exponent = softmax.exponent(scores, c);
    write_weights(scores, exponent, shared, weights);
    __syncthreads();
    multiply(shared_rows + at.first_row);
  }

  /// output row *= its factor.
  __device__ __forceinline__ void multiply(const SharedRow* group) {
    const SharedRow* mine = group + ptx::thread_again() % 32 / 4;
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      const float factor = mine[8 * r].factor;
#pragma unroll
      for (int g = 0; g < columns / 8; ++g)
        output[r / 2][g][r % 2 * 2] *= factor, output[r / 2][g][r % 2 * 2 + 1] *= factor;
    }
  }

  /// output += weights V, of 64 rows and this warp's columns.
  __device__ __forceinline__ void weights_value(unsigned shared) {
    const int lane = ptx::thread_again() % 32;
    const WarpPlace at = WarpPlace::again();
    const MatrixRow row = query_matrix_row(lane), key = value_matrix_row(lane);
    const auto weight_lane = LaneAddress<config.tile_keys>::of(row.row, row.chunk);
    // A quarter of the columns starts on a multiple of 16; its chunk pairs are counted from 0.
    const auto value_lane = LaneAddress<config.value_dim>::of(key.row, key.chunk);
    const unsigned weight_tile =
        shared + Plan::weights + unsigned(at.first_row * WeightTile::row_bytes);
    const unsigned value_tile = shared + Plan::value(0);
    constexpr int steps = config.tile_keys / 16, pairs = columns / 16;
    const int first_pair = at.quarter * pairs;
    unsigned a[2][4][4], b[2][4];
    const auto read_weights = [&](int step, int block) {
      ptx::ldmatrix_x4(a[step % 2][block],
                       weight_tile + weight_lane.at(step) + 16 * block * WeightTile::row_bytes);
    };
    const auto read_value = [&](int p) {
      ptx::ldmatrix_x4_trans(b[p % 2], value_tile + value_lane.at(first_pair + p % pairs) +
                                           16 * (p / pairs) * ValueTile::row_bytes);
    };
#pragma unroll
    for (int block = 0; block < 4; ++block) read_weights(0, block);
    read_value(0);
#pragma unroll
    for (int p = 0; p < steps * pairs; ++p) {
      const int step = p / pairs;
      if (p + 1 < steps * pairs) read_value(p + 1);
      if (step + 1 < steps) {
#pragma unroll
        for (int block = p % pairs; block < 4; block += pairs) read_weights(step + 1, block);
      }
#pragma unroll
      for (int block = 0; block < 4; ++block) {
        const int pair = p % pairs;
        const unsigned(&v)[4] = b[p % 2];
        ptx::mma_16x8x16<config.type>(output[block][2 * pair], a[step % 2][block], v[0], v[1]);
        ptx::mma_16x8x16<config.type>(output[block][2 * pair + 1], a[step % 2][block], v[2], v[3]);
      }
    }
  }
};

}  // namespace tilefold::cuda::sm80
