// The shape of one sm90 forward kernel as a template value, its arithmetic beside it.
//
// A block of `consumers` warpgroups owns 64 query rows each and walks the keys in tiles of
// tile_keys; one more warpgroup brings work and tiles. One block a multiprocessor.
#pragma once

#include "cuda/tile/half_type.hpp"
#include "cuda/tile/ptx/setmaxnreg.cuh"
#include "tilefold/score/portable.hpp"

namespace tilefold::cuda::sm90 {

/// `range`: scale and range mask. `changed`: softcap, ALiBi, bias and mask programs too, read as
/// data. `compiled`: a mask and a score change that are part of the kernel's type.
enum class Formula { range, changed, compiled };

struct ForwardConfig {
  HalfType type;
  int head_dim, value_dim;  // multiples of 32; smaller ones are filled with zeros by TMA
  int tile_keys;            // a multiple of 16
  int stages;               // of K and of V
  int query_stages;         // 2: Q of the next query tile loads under this one
  int consumers;            // warpgroups
  Formula formula;
  /// Formula::compiled: no code but for rows that are not split, leave by the fast path and round
  /// their weights: a quarter less to compile and to fetch.
  bool plain = false;

  static constexpr int warpgroup_rows = 64;
  TILEFOLD_HD constexpr int threads() const { return 128 * (consumers + 1); }
  TILEFOLD_HD constexpr int tile_rows() const { return warpgroup_rows * consumers; }

  /// Tiles lie in groups of 64 columns (tile/matrix_descriptor.cuh).
  TILEFOLD_HD static constexpr int groups_of(int columns) { return (columns + 63) / 64; }
  TILEFOLD_HD constexpr int key_groups() const { return groups_of(head_dim); }
  TILEFOLD_HD constexpr int value_groups() const { return groups_of(value_dim); }
  /// Of one warpgroup's Q, of a tile of K and of V.
  TILEFOLD_HD constexpr int query_bytes() const { return 128 * warpgroup_rows * key_groups(); }
  TILEFOLD_HD constexpr int key_bytes() const { return 128 * tile_keys * key_groups(); }
  TILEFOLD_HD constexpr int value_bytes() const { return 128 * tile_keys * value_groups(); }
  TILEFOLD_HD constexpr int tile_bytes() const {
    return query_stages * consumers * query_bytes() + stages * (key_bytes() + value_bytes());
  }

  /// Whether warpgroups pass by tiles that none of their rows sees, and under a range start with
  /// half a tile where they see no more. With three the outer ones see other tiles; two see almost
  /// the same, and the questions cost more than they save (docs/kernels/forward_sm90.md).
  TILEFOLD_HD constexpr bool passes_by() const {
    return consumers == 3 && formula != Formula::changed;
  }
  TILEFOLD_HD constexpr int narrow_keys() const { return (tile_keys / 2 + 15) / 16 * 16; }

  /// Whether the output is rescaled under the next tile's scores and not before them. Wide heads
  /// have no uniform registers for what then lies between two products.
  TILEFOLD_HD constexpr bool rescales_late() const {
    return head_dim <= 128 && formula != Formula::changed;
  }

  /// Assignments in flight: 3 where shared memory allows, so that short query tiles never wait for
  /// the next.
  TILEFOLD_HD constexpr int slots() const { return tile_bytes() <= 220 * 1024 ? 3 : 2; }

  /// Registers a thread once the roles part. ptxas takes each as its role's budget; a scout that
  /// reads formulas needs more.
  TILEFOLD_HD constexpr int consumer_registers() const {
    return consumers == 3 ? 160 : formula == Formula::range ? 232 : 224;
  }
  TILEFOLD_HD constexpr int producer_registers() const {
    return consumers == 3 ? 32 : formula == Formula::range ? 40 : 56;
  }
  /// Scores, the weights they become, and the output.
  TILEFOLD_HD constexpr int fragment_registers() const {
    return tile_keys / 2 + tile_keys / 4 + value_dim / 2;
  }

  TILEFOLD_HD constexpr bool valid() const {
    return head_dim % 32 == 0 && head_dim <= 256 && value_dim % 32 == 0 && value_dim <= 256 &&
           tile_keys % 16 == 0 && tile_keys <= 256 && stages >= 2 && query_stages >= 1 &&
           query_stages <= 2 && (consumers == 2 || consumers == 3) &&
           fragment_registers() + 24 <= consumer_registers() &&
           ptx::registers_fit(producer_registers(), consumer_registers(), consumers);
  }
};

/// A configuration as a type: nvcc 13.0 writes a broken host stub for a __global__ over the value.
template <ForwardConfig config> struct Choice {
  static constexpr ForwardConfig value = config;
  static_assert(value.valid(), "registers do not fit");
  static_assert(config.formula != Formula::compiled);
};
/// The same with the formula that is compiled into it: a CompiledFormula.
template <ForwardConfig config, class F> struct CompiledChoice {
  static constexpr ForwardConfig value = config;
  using Compiled = F;
  static_assert(value.valid(), "registers do not fit");
  static_assert(config.formula == Formula::compiled);
};

}  // namespace tilefold::cuda::sm90
