// The two products and the softmax between them, in the registers of one warp.
#pragma once

#include "cuda/kernels/sm80/config.hpp"
#include "cuda/tile/fragment.cuh"
#include "cuda/tile/online_softmax.cuh"
#include "cuda/tile/ptx/ldmatrix.cuh"
#include "cuda/tile/ptx/mma.cuh"
#include "cuda/tile/ptx/tid.cuh"
#include "cuda/tile/swizzle.cuh"

namespace tilefold::cuda::sm80 {

/// Q of a warp's rows as operand a, read at every tile or kept.
template <class Chosen> struct QueryFragments {
  static constexpr ForwardConfig config = Chosen::value;
  static constexpr bool kept = config.query == QueryHome::registers;
  static constexpr int steps = config.head_dim / 16;

  unsigned held[kept ? steps : 1][config.row_blocks][4];

  /// Where this lane points ldmatrix at: `tile` is the shared address of the block's first row.
  struct Source {
    unsigned tile;
    LaneAddress<config.head_dim, config.layout> lane;

    __device__ __forceinline__ Source(unsigned block_tile, int thread)
        : tile(block_tile + unsigned(thread / 32 * config.warp_rows() *
                                     Swizzle<config.head_dim, config.layout>::row_bytes)) {
      const MatrixRow place = query_matrix_row(thread % 32);
      lane = LaneAddress<config.head_dim, config.layout>::of(place.row, place.chunk);
    }
    __device__ __forceinline__ void read(int step, unsigned (&a)[config.row_blocks][4]) const {
#pragma unroll
      for (int block = 0; block < config.row_blocks; ++block)
        ptx::ldmatrix_x4(
            a[block],
            tile + lane.at(step) + 16 * block * Swizzle<config.head_dim, config.layout>::row_bytes);
    }
  };

  __device__ __forceinline__ void hold(unsigned block_tile) {
    if constexpr (kept) {
      const Source source(block_tile, ptx::thread_again());
#pragma unroll
      for (int step = 0; step < steps; ++step) source.read(step, held[step]);
    }
  }
  __device__ __forceinline__ void fetch(int step, const Source& source,
                                        unsigned (&a)[config.row_blocks][4]) const {
    if constexpr (kept) {
#pragma unroll
      for (int block = 0; block < config.row_blocks; ++block)
#pragma unroll
        for (int i = 0; i < 4; ++i) a[block][i] = held[step][block][i];
    } else {
      source.read(step, a);
    }
  }
};

/// Output, scores and softmax state of a warp's rows.
template <class Chosen> struct Computer {
  static constexpr ForwardConfig config = Chosen::value;
  static constexpr int rows = 2 * config.row_blocks;  // a thread's
  static constexpr int score_groups = config.tile_keys / 8, value_groups = config.value_dim / 8;
  using Scores = float[config.row_blocks][score_groups][4];
  using Output = float[config.row_blocks][value_groups][4];

  QueryFragments<Chosen> query;
  OnlineSoftmax<rows> softmax;
  Output output;

  __device__ __forceinline__ Computer() : softmax() { clear(output); }

  template <int groups>
  static __device__ __forceinline__ void clear(float (&sums)[config.row_blocks][groups][4]) {
#pragma unroll
    for (int block = 0; block < config.row_blocks; ++block)
#pragma unroll
      for (int g = 0; g < groups; ++g)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[block][g][e] = 0.0f;
  }

  /// scores = Q K^T. Fragments of K are asked for two products ahead of their use.
  __device__ __forceinline__ void query_key(Scores& scores, unsigned query_tile,
                                            unsigned key_tile) const {
    const int thread = ptx::thread_again();
    const typename QueryFragments<Chosen>::Source rows_of_q(query_tile, thread);
    const MatrixRow place = key_matrix_row(thread % 32);
    const auto lane = LaneAddress<config.head_dim, config.layout>::of(place.row, place.chunk);
    constexpr int pairs = config.tile_keys / 16, products = pairs * config.head_dim / 16;
    constexpr int ahead = config.fragments_ahead();
    clear(scores);
    unsigned b[ahead + 1][4], a[config.row_blocks][4];
#pragma unroll
    for (int p = 0; p < ahead; ++p) read_key(b[p], key_tile, lane, p);
#pragma unroll
    for (int p = 0; p < products; ++p) {
      const int step = p / pairs, pair = p % pairs;
      if (p + ahead < products) read_key(b[(p + ahead) % (ahead + 1)], key_tile, lane, p + ahead);
      if (pair == 0) query.fetch(step, rows_of_q, a);
#pragma unroll
      for (int block = 0; block < config.row_blocks; ++block) {
        const unsigned(&k)[4] = b[p % (ahead + 1)];
        ptx::mma_16x8x16<config.type>(scores[block][2 * pair], a[block], k[0], k[1]);
        ptx::mma_16x8x16<config.type>(scores[block][2 * pair + 1], a[block], k[2], k[3]);
      }
    }
  }

  /// output += exp2(scores) V. P is rounded to the operand's type after its sum is taken, as eager
  /// attention does. A second part would need registers for one more operand: it takes 16 rows at a
  /// time and reads V again; beside 256 columns of output it waits for another pass over all of V.
  template <WeightParts parts>
  __device__ __forceinline__ void weights_value(Scores& scores, const Exponent<rows>& exponent,
                                                unsigned value_tile) {
    unsigned rest[4];
    if constexpr (parts == WeightParts::one) {
      multiply_value<config.row_blocks, 1>(
          value_tile, [&](unsigned(&a)[config.row_blocks][4], int step, int, int) {
#pragma unroll
            for (int block = 0; block < config.row_blocks; ++block)
              weigh<parts>(a[block], rest, scores, exponent, step, block);
          });
    } else if constexpr (config.row_blocks == 2 || config.value_dim <= 192) {
      multiply_value<1, 2>(value_tile, [&](unsigned(&a)[1][4], int step, int block, int part) {
        if (part == 0)
          weigh<parts>(a[0], rest, scores, exponent, step, block);
        else
          copy(rest, a[0]);
      });
    } else {
      multiply_value<1, 1>(value_tile, [&](unsigned(&a)[1][4], int step, int, int) {
        weigh<parts>(a[0], rest, scores, exponent, step, 0);
        keep(rest, scores, step);
      });
      multiply_value<1, 1>(
          value_tile, [&](unsigned(&a)[1][4], int step, int, int) { take(scores, step, a[0]); });
    }
  }

 private:
  /// output += P V, `blocks` row blocks and 16 keys at a time: while one turn multiplies, the
  /// exponentials of the next can run. operands(a, step, first block, part) gives P of 16 keys as
  /// operand a, part by part.
  template <int blocks, int parts, class Operands>
  __device__ __forceinline__ void multiply_value(unsigned value_tile, const Operands& operands) {
    const MatrixRow place = value_matrix_row(ptx::thread_again() % 32);
    const auto lane = LaneAddress<config.value_dim, config.layout>::of(place.row, place.chunk);
    constexpr int pairs = config.value_dim / 16, turns_a_step = config.row_blocks / blocks * parts;
    constexpr int turns = config.tile_keys / 16 * turns_a_step;
    constexpr int ahead = config.fragments_ahead(), products = pairs * turns;
    unsigned b[ahead + 1][4];
    const auto read = [&](int p) {
      read_value(b[p % (ahead + 1)], value_tile, lane, p / pairs / turns_a_step, p % pairs);
    };
#pragma unroll
    for (int p = 0; p < ahead; ++p) read(p);
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      const int first_block = turn % turns_a_step / parts * blocks;
      unsigned a[blocks][4];
      operands(a, turn / turns_a_step, first_block, turn % parts);
#pragma unroll
      for (int pair = 0; pair < pairs; ++pair) {
        const int p = turn * pairs + pair;
        if (p + ahead < products) read(p + ahead);
        const unsigned(&v)[4] = b[p % (ahead + 1)];
#pragma unroll
        for (int block = 0; block < blocks; ++block) {
          float(&sums)[value_groups][4] = output[first_block + block];
          ptx::mma_16x8x16<config.type>(sums[2 * pair], a[block], v[0], v[1]);
          ptx::mma_16x8x16<config.type>(sums[2 * pair + 1], a[block], v[2], v[3]);
        }
      }
    }
  }

  __device__ __forceinline__ void read_key(unsigned (&b)[4], unsigned tile,
                                           const LaneAddress<config.head_dim, config.layout>& lane,
                                           int product) const {
    constexpr int pairs = config.tile_keys / 16;
    ptx::ldmatrix_x4(
        b, tile + lane.at(product / pairs) +
               16 * (product % pairs) * Swizzle<config.head_dim, config.layout>::row_bytes);
  }
  __device__ __forceinline__ void read_value(
      unsigned (&b)[4], unsigned tile, const LaneAddress<config.value_dim, config.layout>& lane,
      int step, int pair) const {
    ptx::ldmatrix_x4_trans(
        b, tile + lane.at(pair) + 16 * step * Swizzle<config.value_dim, config.layout>::row_bytes);
  }
  /// The weights of keys [16 step, 16 step + 16) as operand a; `rest` is what rounding took off.
  template <WeightParts parts>
  __device__ __forceinline__ void weigh(unsigned (&a)[4], unsigned (&rest)[4], const Scores& scores,
                                        const Exponent<rows>& exponent, int step, int block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 2 * block + i % 2, first = i % 2 * 2;
      const float(&s)[4] = scores[block][2 * step + i / 2];
      const float w0 = ptx::exp2(::fmaf(s[first], exponent.factor, -exponent.shift[row]));
      const float w1 = ptx::exp2(::fmaf(s[first + 1], exponent.factor, -exponent.shift[row]));
      softmax.sum[row] += w0 + w1;
      a[i] = ptx::pack<config.type>(w0, w1);
      if constexpr (parts == WeightParts::two) {
        const auto rounded = ptx::unpack<config.type>(a[i]);
        rest[i] = ptx::pack<config.type>(w0 - rounded.low, w1 - rounded.high);
      }
    }
  }
  static __device__ __forceinline__ void copy(const unsigned (&from)[4], unsigned (&to)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = from[i];
  }
  /// In place of scores that are no longer needed.
  static __device__ __forceinline__ void keep(const unsigned (&rest)[4], Scores& scores, int step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[0][2 * step + i / 2][i % 2 * 2] = __uint_as_float(rest[i]);
  }
  static __device__ __forceinline__ void take(const Scores& scores, int step, unsigned (&rest)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) rest[i] = __float_as_uint(scores[0][2 * step + i / 2][i % 2 * 2]);
  }
};

}  // namespace tilefold::cuda::sm80
