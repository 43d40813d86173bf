// The shape of one sm80 forward kernel as a template value, its arithmetic beside it.
//
// A block of `warps` warps owns tile_rows() packed query rows, 16 * row_blocks a warp, and walks
// the keys in tiles of tile_keys. Two row blocks a warp halve the shared-memory reads: each K and V
// fragment that ldmatrix brings serves two products. That is what bounds mma.sync on Hopper
// (docs/kernels/sm80.md).
#pragma once

#include "cuda/tile/half_type.hpp"
#include "cuda/tile/swizzle.cuh"
#include "tilefold/score/portable.hpp"

namespace tilefold::cuda::sm80 {

/// Where the score product reads Q from: ldmatrix at every tile, or once into registers.
enum class QueryHome { shared, registers };
/// `strided`: dense and ragged keys. `paged`: each key row through the page table, and the others
/// too.
enum class KeyHome { strided, paged };
/// `plain`: scale and range mask. `changed`: softcap, ALiBi, bias and mask programs too, read as
/// data. `compiled`: a mask and a score change that are part of the kernel's type.
enum class Formula { plain, changed, compiled };
/// How warps share a block. `rows`: each has rows of its own. `columns`: four warps share 64 rows;
/// each computes the scores of 32 rows and half the tile's keys and the output of a quarter of the
/// columns, and the weights change hands in shared memory.
enum class Share { rows, columns };

/// How P enters its product with V: rounded to the operand's type, or as that and the rounded rest,
/// which together hold 16 bits or more (docs/numerics.md says for which heads). A kernel does both.
enum class WeightParts { one, two };

struct ForwardConfig {
  HalfType type;
  int head_dim, value_dim;  // multiples of 32; smaller ones are filled with zeros
  int warps, row_blocks, tile_keys;
  int stages;  // of K and V tiles. 1: K and V take turns, each loads while the other multiplies
  QueryHome query;
  KeyHome keys;
  Formula formula;
  Share share;
  int blocks_per_sm;  // that registers must leave room for
  SharedLayout layout = SharedLayout::swizzled;

  TILEFOLD_HD constexpr int threads() const { return 32 * warps; }
  TILEFOLD_HD constexpr int warp_rows() const { return 16 * row_blocks; }
  TILEFOLD_HD constexpr int tile_rows() const { return warps * warp_rows(); }

  TILEFOLD_HD constexpr int query_bytes() const { return 2 * tile_rows() * head_dim; }
  TILEFOLD_HD constexpr int key_bytes() const { return 2 * tile_keys * head_dim; }
  TILEFOLD_HD constexpr int value_bytes() const { return 2 * tile_keys * value_dim; }
  TILEFOLD_HD constexpr bool shares_rows() const { return share == Share::columns; }
  /// Weights of a tile, and what the warps of one row tell each other of it.
  TILEFOLD_HD constexpr int weight_bytes() const {
    return shares_rows() ? 2 * tile_rows() * tile_keys : 0;
  }
  TILEFOLD_HD constexpr int shared_row_bytes() const {
    return shares_rows() ? 32 * tile_rows() : 0;
  }
  static constexpr int work_bytes = 256;
  TILEFOLD_HD constexpr int row_table_bytes() const { return 16 * tile_rows(); }
  TILEFOLD_HD constexpr int shared_bytes() const {
    return query_bytes() + stages * (key_bytes() + value_bytes()) + weight_bytes() +
           row_table_bytes() + shared_row_bytes() + work_bytes;
  }
  /// Accumulators and the fragments that live through the loop; addresses and a pipeline of K and V
  /// fragments come on top, about 40.
  TILEFOLD_HD constexpr int fragment_registers() const {
    const int held = query == QueryHome::registers ? row_blocks * head_dim / 4 : 4 * row_blocks;
    return row_blocks * (value_dim + tile_keys) / 2 + held;
  }
  /// How many K or V fragments are asked for before they are needed: one of 4 registers hides half
  /// the latency of ldmatrix under 2 * row_blocks products, two hide it all.
  TILEFOLD_HD constexpr int fragments_ahead() const {
    return fragment_registers() + 40 <= register_budget() ? 2 : 1;
  }
  TILEFOLD_HD constexpr int register_budget() const {
    const int budget = 65536 / (threads() * blocks_per_sm) / 8 * 8;
    return budget > 255 ? 255 : budget;
  }
  TILEFOLD_HD constexpr bool valid() const {
    return head_dim % 32 == 0 && value_dim % 32 == 0 && value_dim <= head_dim &&
           tile_keys % 16 == 0 && (warps == 4 || warps == 8) &&
           (row_blocks == 1 || row_blocks == 2) && stages >= 1 &&
           (!shares_rows() ||
            (row_blocks == 1 && stages == 1 && query == QueryHome::shared &&
             layout == SharedLayout::swizzled && tile_keys % 32 == 0 && value_dim % 64 == 0)) &&
           shared_bytes() <= 227 * 1024 && fragment_registers() + 16 <= register_budget() &&
           blocks_per_sm * (shared_bytes() + 1024) <= 228 * 1024;
  }
};

/// A configuration as a type: nvcc 13.0 writes a broken host stub for a __global__ over the value.
template <ForwardConfig config> struct Choice {
  static constexpr ForwardConfig value = config;
  static_assert(value.valid(), "shared memory or registers do not fit");
};
/// The same with the formula that is compiled into it: a CompiledFormula.
template <ForwardConfig config, class F> struct CompiledChoice {
  static constexpr ForwardConfig value = config;
  using Compiled = F;
  static_assert(value.valid(), "shared memory or registers do not fit");
  static_assert(config.formula == Formula::compiled);
};

}  // namespace tilefold::cuda::sm80
