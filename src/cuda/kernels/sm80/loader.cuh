// Q, K and V from device memory to swizzled tiles in shared memory, 16 bytes a cp.async.
//
// The threads of a block lie over a tile as lanes_a_row columns of chunks; a pass moves
// threads / lanes_a_row rows, a multiple of 8, so a thread's swizzle turn never changes.
// Keys outside the block's range are not read and leave zeros: 0 * NaN would reach the output
// through V.
#pragma once

#include "cuda/kernels/forward_params.cuh"
#include "cuda/kernels/sm80/config.hpp"
#include "cuda/kernels/sm80/lanes.hpp"
#include "cuda/kernels/sm80/shared_plan.cuh"
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

  /// Rows that only fill the tile become zeros.
  __device__ __forceinline__ void query(const Row* rows) const {
    using L = Lanes<config.head_dim, threads, config.layout>;
    const int thread = ptx::thread_again();
    const char* source = static_cast<const char*>(params_.query.data) + 16 * L::chunk(thread);
    const unsigned target = shared_ + SharedPlan<Chosen>::query + L::offset(thread);
#pragma unroll
    for (int pass = 0; pass < config.tile_rows() / L::rows_a_pass; ++pass) {
      const Row row = rows[L::row(thread) + pass * L::rows_a_pass];
      const bool read = row.query >= 0;
      const RowPlace place = query_place(sequence(), block_.work.sequence, read ? row.query : 0);
      load_row<L>(target, source + 2 * place.offset(params_.query.strides, row.head), thread, pass,
                  params_.head_dim, read);
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
                            tile / 2 * config.tile_keys, block_.wanted});
  }

 private:
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
    const char* row = start + 2 * source.strides.row * first;
#pragma unroll
    for (int pass = 0; pass < config.tile_keys / L::rows_a_pass; ++pass) {
      const int key = first + pass * L::rows_a_pass;
      bool read = key >= source.wanted.begin && key < source.wanted.end;
      if constexpr (config.keys == KeyHome::paged)
        if (is_paged(params_)) row = start + paged_offset(source.strides, key, read);
      load_row<L>(shared, row, thread, pass, source.present, read);
      row += 2 * source.strides.row * L::rows_a_pass;
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
