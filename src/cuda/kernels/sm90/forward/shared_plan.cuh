// Where things lie in a block's shared memory, in bytes from its start; and what the roles tell
// each other there.
//
//   query    [query_stages][consumers] of [64][head_dim]   swizzled, 16-bit
//   key      [stages] of [tile_keys][head_dim]
//   value    [stages] of [tile_keys][value_dim]
//   barriers of the rings
//   slots    [2 or 3] of Slot
#pragma once

#include "cuda/kernels/compiled_formula.cuh"
#include "cuda/kernels/sm90/forward/config.hpp"
#include "cuda/kernels/sm90/forward/own_tiles.hpp"
#include "cuda/kernels/sm90/forward/params.hpp"
#include "cuda/tile/ring.cuh"

namespace tilefold::cuda::sm90 {

/// Keys [begin, end) of the sequence that one row sees.
struct RowKeys {
  int begin, end;
};

/// Where the tile's first row leaves to, where a list is one head: found by the scout, because the
/// epilogue stands between two query tiles.
struct OutputPlace {
  unsigned short* out;      // of 16-bit elements
  float* lse;               // null: none is wanted
  int out_row, lse_row;     // elements from one row's to the next's
  int row, head, sequence;  // in the output's tensor map
};

/// One query tile and its key tiles, as the scout found them. A long list of key tiles comes in
/// several slots, from the last tile to the first.
struct Assignment {
  ForwardWork work;  // rows == 0: there is no more
  int key_head;      // of K and V
  SequenceInfo sequence;
  int first_tile, last_tile;  // key tiles [first, last): never empty
  KeyRange values;  // keys whose V counts; rows of V outside are made zeros before they are used
  // Formula::range uses none of these four.
  unsigned live, partial;  // bit i is tile last_tile - 1 - i
  int continues, more;     // 1 where the slot before, or after, holds tiles of this query tile too
  OutputPlace place;
};

inline constexpr int end_of_all = 2147483647;

/// What the rows of one warpgroup see of an assignment's keys: tiles [first, last), keys below
/// `end`. It passes the other tiles by. No tiles only without rows.
struct OwnKeys {
  int first, last, end;
};

template <class Chosen> struct Slot {
  static constexpr ForwardConfig config = Chosen::value;
  static constexpr bool compiled = config.formula == Formula::compiled;

  Assignment assignment;
  OwnKeys own[config.passes_by() && !compiled ? config.consumers : 1];
  OwnTiles tiles[config.passes_by() && compiled ? config.consumers : 1];
  /// Keys that every row of a warpgroup sees: their tiles need no masks. {last, first} of the work
  /// where there are none, or every tile takes the long way.
  KeyRange all[config.consumers];
  int splits_weights[config.consumers];  // 1: a warpgroup's are kept in two parts
  /// A compiled mask tells itself what each row sees of the work's keys.
  RowKeys rows[compiled ? 1 : config.tile_rows()];
};

template <class Chosen> struct SharedPlan {
  static constexpr ForwardConfig config = Chosen::value;
  static constexpr int slots = config.slots();
  using QueryRing = Ring<config.query_stages>;
  using TileRing = Ring<config.stages>;
  using SlotRing = Ring<slots>;

  static constexpr int key_at = config.query_stages * config.consumers * config.query_bytes();
  static constexpr int value_at = key_at + config.stages * config.key_bytes();
  static constexpr int barriers_at = value_at + config.stages * config.value_bytes();
  static constexpr int slots_at = barriers_at + (config.consumers * QueryRing::bytes +
                                                 2 * TileRing::bytes + 2 * SlotRing::bytes + 15) /
                                                    16 * 16;
  static constexpr int bytes = slots_at + slots * int(sizeof(Slot<Chosen>));
  static_assert(key_at % 1024 == 0 && config.key_bytes() % 1024 == 0 &&
                    config.value_bytes() % 1024 == 0,
                "swizzled tiles start on multiples of 1024");
  static_assert(bytes <= 227 * 1024, "what a block may have");

  unsigned char* memory;
  unsigned base;  // the same as a shared-memory address

  __device__ __forceinline__ unsigned query(unsigned stage, int warpgroup) const {
    return base + (stage * config.consumers + warpgroup) * config.query_bytes();
  }
  __device__ __forceinline__ unsigned key(unsigned stage) const {
    return base + key_at + stage * config.key_bytes();
  }
  __device__ __forceinline__ unsigned value(unsigned stage) const {
    return base + value_at + stage * config.value_bytes();
  }
  __device__ __forceinline__ Slot<Chosen>& slot(unsigned stage) const {
    return reinterpret_cast<Slot<Chosen>*>(memory + slots_at)[stage];
  }
  __device__ __forceinline__ TileRing keys() const { return {base + barriers_at}; }
  __device__ __forceinline__ TileRing values() const {
    return {base + barriers_at + TileRing::bytes};
  }
  __device__ __forceinline__ SlotRing assignments() const {
    return {base + barriers_at + 2 * TileRing::bytes};
  }
  /// Of the same slots: what the loader reads is there, and the rest to come. It empties nothing.
  __device__ __forceinline__ SlotRing routes() const {
    return {base + barriers_at + 2 * TileRing::bytes + SlotRing::bytes};
  }
  __device__ __forceinline__ QueryRing queries(int warpgroup) const {
    return {base + barriers_at + 2 * TileRing::bytes + 2 * SlotRing::bytes +
            warpgroup * QueryRing::bytes};
  }

  /// By one thread. Each warp of a consumer releases for itself: its own reads are over when its
  /// own wait is. Q by rows: two warps fill it, and read assignments as the loader does.
  __device__ __forceinline__ void init(QueryPath path) const {
    const int copiers = path == QueryPath::rows ? 2 : 0;
    keys().init(4 * config.consumers);
    values().init(4 * config.consumers);
    assignments().init(4 * config.consumers + 1 + copiers, 32);  // a lane of the scout each
    routes().init(1, 32);
    for (int w = 0; w < config.consumers; ++w)
      queries(w).init(4, path == QueryPath::rows ? copiers : 1);
    ptx::fence_mbarrier_init();
  }
};

}  // namespace tilefold::cuda::sm90
