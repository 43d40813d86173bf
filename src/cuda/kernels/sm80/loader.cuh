// Q, K and V from device memory to swizzled tiles in shared memory, 16 bytes a cp.async.
//
// The threads of a block lie over a tile as lanes_a_row columns of chunks; a pass moves
// threads / lanes_a_row rows, a multiple of 8, so a thread's swizzle turn never changes.
// Keys outside the block's range are not read and leave zeros: 0 * NaN would reach the output
// through V.
#pragma once

#include "cuda/kernels/forward_params.cuh"
#include "cuda/kernels/sm80/compiled.cuh"
#include "cuda/kernels/sm80/config.hpp"
#include "cuda/kernels/sm80/lanes.hpp"
#include "cuda/kernels/sm80/shared_plan.cuh"
#include "cuda/tile/formula.cuh"
#include "cuda/tile/ptx/cp_async.cuh"
#include "cuda/tile/ptx/ldmatrix.cuh"
#include "cuda/tile/ptx/tid.cuh"
#include "cuda/tile/swizzle.cuh"

namespace tilefold::cuda::sm80 {

/// Copies one row's chunks; those of columns from `present` on, and of unwanted rows, become zeros.
template <class L> __device__ __forceinline__ void load_row(unsigned shared, const char* row,
                                                            int thread, int pass, int present,
                                                            bool wanted) {
#pragma unroll
  for (int g = 0; g < L::groups; ++g) {
    const int bytes = wanted ? L::bytes(thread, g, present) : 0;
    ptx::cp_async_16(shared + L::step(pass, g), row + g * L::across * 16, bytes);
  }
}

/// A tile of K or V to be loaded: `keys` rows from `first_key`, of which only those in `wanted` are
/// read.
struct TileSource {
  const char* start;  // key 0 or page 0 of the head
  const Strides& strides;
  int present;  // columns that exist
  int first_key;
  KeyRange wanted;
};

/// What a block loads.
template <class Chosen> class Loader {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  static constexpr int threads = config.threads();

  __device__ __forceinline__ Loader(const ForwardParams& params, const BlockWork& block,
                                    unsigned shared)
      : params_(params), block_(block), shared_(shared) {}

  /// A warp loads its own rows: lane l has row l of them in `own`, and hands its address to the
  /// lanes that copy it. Rows that only fill the tile become zeros.
  __device__ __forceinline__ void query(const Row& own) const {
    using Tile = Swizzle<config.head_dim, config.layout>;
    constexpr unsigned all = 0xffffffffu;
    constexpr int across = Tile::lanes_a_row, rows_a_pass = 32 / across;
    const int thread = ptx::thread_again(), lane = thread % 32, chunk = lane % across;
    const RowPlace place =
        query_place(sequence(), block_.work.sequence, own.query >= 0 ? own.query : 0);
    const long long start = 2 * place.offset(params_.query.strides, own.head);
    const unsigned present = __ballot_sync(all, own.query >= 0);
    const char* source = static_cast<const char*>(params_.query.data) + 16 * chunk;
    const unsigned target = shared_ + SharedPlan<Chosen>::query +
                            unsigned(thread / 32 * config.warp_rows() * Tile::row_bytes);
#pragma unroll
    for (int pass = 0; pass < config.warp_rows() / rows_a_pass; ++pass) {
      const int row = lane / across + pass * rows_a_pass;
      const char* from = source + __shfl_sync(all, start, row);
      const bool read = present >> row & 1u;
#pragma unroll
      for (int g = 0; g < Tile::chunks / across; ++g) {
        const bool column = (chunk + g * across) * Tile::chunk_elements < params_.head_dim;
        ptx::cp_async_16(target + Tile::offset(row, chunk) + g * across * Tile::chunk_bytes,
                         from + g * across * Tile::chunk_bytes, read && column ? 16 : 0);
      }
    }
  }
  /// `tile` is a tile of TileWalk, `stage` its place; nothing is loaded past the last.
  __device__ __forceinline__ void key(int stage, int tile) const {
    if (tile < 0) return;
    load<config.head_dim>(shared_ + SharedPlan<Chosen>::key(stage),
                          {block_.key, params_.key.strides, params_.head_dim,
                           tile / 2 * config.tile_keys, block_.wanted});
  }
  __device__ __forceinline__ void value(int stage, int tile) const {
    if (tile < 0) return;
    load<config.value_dim>(shared_ + SharedPlan<Chosen>::value(stage),
                           {block_.value, params_.value.strides, params_.value_dim,
                            tile / 2 * config.tile_keys, wanted_values(tile)});
  }

 private:
  /// Values that a mask program hides from every row of the block stay unread too: 0 * NaN is NaN.
  /// Asked only of tiles that the program must be read by element in.
  __device__ __forceinline__ KeyRange wanted_values(int tile) const {
    KeyRange wanted = block_.wanted;
    if constexpr (config.formula == Formula::changed) {
      if (tile & 1) {
        const int first = tile / 2 * config.tile_keys;
        const KeyRange seen =
            keys_seen_by_any(params_, sequence(), block_.work, first,
                             score::smaller(first + config.tile_keys, wanted.end));
        wanted = {score::larger(wanted.begin, seen.begin), score::smaller(wanted.end, seen.end)};
      }
    } else if constexpr (config.formula == Formula::compiled) {
      if (tile & 1) {
        const int first = score::larger(tile / 2 * config.tile_keys, wanted.begin);
        const int last = score::smaller((tile / 2 + 1) * config.tile_keys, wanted.end);
        const KeyRange seen =
            keys_maybe_seen<Chosen>(params_, sequence(), block_.work, first, last);
        wanted = {score::larger(wanted.begin, seen.begin), score::smaller(wanted.end, seen.end)};
      }
    }
    return wanted;
  }
  __device__ __forceinline__ const SequenceInfo& sequence() const {
    return params_.sequences[block_.work.sequence];
  }

  template <int columns>
  __device__ __forceinline__ void load(unsigned tile, const TileSource& source) const {
    using L = Lanes<columns, threads, config.layout>;
    static_assert(config.tile_keys % L::rows_a_pass == 0, "whole passes");
    const int thread = ptx::thread_again();
    const unsigned shared = tile + L::offset(thread);
    const int first = source.first_key + L::row(thread);
    const char* start = source.start + 16u * unsigned(L::chunk(thread));
    // New to the compiler at each tile: multiples of it kept through the loop would spill sums.
    long long row_bytes = 2 * source.strides.row;
    asm volatile("" : "+l"(row_bytes));
    const char* row = start + row_bytes * first;
    if constexpr (config.keys == KeyHome::strided) {
      // Most tiles lie wholly inside: nothing to ask a row.
      if (source.first_key >= source.wanted.begin &&
          source.first_key + config.tile_keys <= source.wanted.end && source.present == columns) {
#pragma unroll
        for (int pass = 0; pass < config.tile_keys / L::rows_a_pass; ++pass) {
          load_row<L>(shared, row, thread, pass, columns, true);
          row += row_bytes * L::rows_a_pass;
        }
        return;
      }
    }
#pragma unroll
    for (int pass = 0; pass < config.tile_keys / L::rows_a_pass; ++pass) {
      const int key = first + pass * L::rows_a_pass;
      bool read = key >= source.wanted.begin && key < source.wanted.end;
      if constexpr (config.keys == KeyHome::paged)
        if (is_paged(params_)) row = start + paged_offset(source.strides, key, read);
      load_row<L>(shared, row, thread, pass, source.present, read);
      row += row_bytes * L::rows_a_pass;
    }
  }

  /// Bytes from page 0; an id outside the pool is not read.
  __device__ __forceinline__ long long paged_offset(const Strides& strides, int key,
                                                    bool& read) const {
    RowPlace place{0, 0};
    if (read) place = key_place(params_, sequence(), block_.work.sequence, key);
    read = read && place.outer >= 0;
    return 2 * (place.outer * strides.outer + place.row * strides.row);
  }

  const ForwardParams& params_;
  const BlockWork& block_;
  unsigned shared_;
};

}  // namespace tilefold::cuda::sm80
