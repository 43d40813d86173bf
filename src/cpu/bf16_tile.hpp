// What the two bf16 kernels share: packing and the online softmax, in AVX-512.
//
// Lanes are taken in groups of 16, a vector of f32. A block is 1 KiB: 16 rows of 16 dwords, a dword
// being a pair of bf16 that one dot-product instruction consumes (the lower half is the even one).
//   packed query  [chunk of 32 dims][group][16 pairs of dims][16 lanes]
//   weights       [part][group][chunk of 32 keys][16 pairs of keys][16 lanes]; one part or two
//
// Everything here is compiled for AVX-512 whatever the build's flags are: include it only from
// units that call it behind cpu_has().
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "cpu/tile_kernel.hpp"

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC diagnostic push
// g++ 12 takes the undefined vectors inside its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")
#endif

namespace tilefold::cpu::bf16 {

constexpr int group_lanes = 16;    // f32 of a vector
constexpr int chunk = 32;          // bf16 of a vector: dims or keys of one AMX instruction
constexpr int block_dwords = 256;  // 16 x 16 pairs
constexpr int max_tile_keys = 64;
constexpr int max_groups = 4;
constexpr int group_weight_dwords = max_tile_keys / chunk * block_dwords;

constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }

/// Lane groups that take part in a step; the others' lanes hold no query row, or no visible key
/// yet. `parts`: of weights.
struct alignas(64) Groups {
  int count;
  int index[max_groups];
  int parts;
};
constexpr std::size_t header_dwords = sizeof(Groups) / sizeof(std::uint32_t);
constexpr std::size_t bytes_of_blocks(int blocks) {
  return sizeof(Groups) + std::size_t(blocks) * block_dwords * sizeof(std::uint32_t);
}

/// The first `count` of the row's bf16, zeros behind them; count may be 0 or less.
inline __m512i load_row(const std::uint16_t* row, int count) {
  if (count >= chunk) return _mm512_loadu_si512(row);
  const __mmask32 mask = count <= 0 ? 0u : ~0u >> (chunk - count);
  return _mm512_maskz_loadu_epi16(mask, row);
}

/// 16 columns of two rows as pairs: the upper row's in the even halves.
inline __m512i load_pairs(const std::uint16_t* even, const std::uint16_t* odd, int columns,
                          bool odd_exists) {
  const __mmask16 mask = __mmask16(columns >= 16 ? 0xffffu : (1u << columns) - 1);
  const auto widen = [mask](const std::uint16_t* row) {
    return _mm512_maskz_cvtepu16_epi32(mask, _mm256_maskz_loadu_epi16(mask, row));
  };
  const __m512i low = widen(even);
  if (!odd_exists) return low;
  const __m512i high = widen(odd);
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/// to[c][r] = from[r][c], both 16 x 16 dwords and 64-byte aligned. The 128-bit quarters travel by
/// masked broadcast loads, so that only 32 shuffles are left for the one port that does them.
inline void transpose_block(const std::uint32_t* from, std::uint32_t* to) {
  for (int quarter = 0; quarter < 4; ++quarter) {
    __m512i z[4];
    for (int i = 0; i < 4; ++i) {
      const auto piece = [&](int r) {
        return _mm_load_si128(
            reinterpret_cast<const __m128i*>(from + r * group_lanes + 4 * quarter));
      };
      z[i] = _mm512_castsi128_si512(piece(i));
      z[i] = _mm512_mask_broadcast_i32x4(z[i], 0x00f0, piece(4 + i));
      z[i] = _mm512_mask_broadcast_i32x4(z[i], 0x0f00, piece(8 + i));
      z[i] = _mm512_mask_broadcast_i32x4(z[i], 0xf000, piece(12 + i));
    }
    const __m512i a = _mm512_unpacklo_epi32(z[0], z[1]), b = _mm512_unpackhi_epi32(z[0], z[1]);
    const __m512i c = _mm512_unpacklo_epi32(z[2], z[3]), d = _mm512_unpackhi_epi32(z[2], z[3]);
    std::uint32_t* out = to + 4 * quarter * group_lanes;
    _mm512_store_si512(out, _mm512_unpacklo_epi64(a, c));
    _mm512_store_si512(out + group_lanes, _mm512_unpackhi_epi64(a, c));
    _mm512_store_si512(out + 2 * group_lanes, _mm512_unpacklo_epi64(b, d));
    _mm512_store_si512(out + 3 * group_lanes, _mm512_unpackhi_epi64(b, d));
  }
}

/// The header says how many groups hold rows; the groups behind them are not written.
inline void pack_query(const TileRows& rows, int groups, void* packed) {
  auto* header = static_cast<Groups*>(packed);
  header->count = divide_up(rows.rows, group_lanes);
  auto* blocks = static_cast<std::uint32_t*>(packed) + header_dwords;
  const auto* data = static_cast<const std::uint16_t*>(rows.data);
  alignas(64) std::uint32_t natural[block_dwords];
  for (int c = 0; c < divide_up(rows.columns, chunk); ++c)
    for (int g = 0; g < header->count; ++g) {
      for (int r = 0; r < group_lanes; ++r) {
        const int row = g * group_lanes + r;
        const bool exists = row < rows.rows;
        const std::uint16_t* at = data + (exists ? row * rows.row_stride + c * chunk : 0);
        _mm512_store_si512(natural + r * group_lanes,
                           load_row(at, exists ? rows.columns - c * chunk : 0));
      }
      transpose_block(natural, blocks + (c * groups + g) * block_dwords);
    }
}

/// Scores of lanes that hold no query row: they weigh nothing, and absorb() passes over them.
inline void hide_group(float* scores, int keys, int lanes) {
  const __m512 hidden = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  for (int k = 0; k < keys; ++k) _mm512_store_ps(scores + k * lanes, hidden);
}

/// e^x, relative error below 1e-7 + 1e-7 |x|: x <= 8 here, and what is far below 0 weighs little.
/// 0 at -inf and below the normal floats (see FlushSubnormals); NaN stays NaN; e^0 is 1 exactly.
///
/// 2^t = 2^floor(t) 2^r: VREDUCEPS gives r = t - floor(t) and VSCALEFPS multiplies by 2^floor(t),
/// each one instruction of the two vector ports, and they treat -inf as it should be: r = 0, 2^-inf
/// = 0. With the subtraction of the maximum an exponential is 9 instructions: no clamp, no mask.
class WeightExp {
 public:
  // A constructor in words: the implicit one would be compiled without AVX-512.
  WeightExp() {
    log2e_ = _mm512_set1_ps(1.44269504f);
    one_ = _mm512_set1_ps(1.0f);
    // Least largest relative error against 2^r on [0, 1] with a constant term of 1: 8e-8.
    c1_ = _mm512_set1_ps(0.693151312f);
    c2_ = _mm512_set1_ps(0.240164449f);
    c3_ = _mm512_set1_ps(0.0557999154f);
    c4_ = _mm512_set1_ps(0.00901702793f);
    c5_ = _mm512_set1_ps(0.00186713094f);
  }
  __m512 operator()(__m512 x) const {
    constexpr int down = 1;  // rounding control: towards -inf, no fraction bits kept
    const __m512 t = _mm512_mul_ps(x, log2e_);
    const __m512 r = _mm512_reduce_ps(t, down);
    __m512 p = _mm512_fmadd_ps(r, c5_, c4_);
    p = _mm512_fmadd_ps(p, r, c3_);
    p = _mm512_fmadd_ps(p, r, c2_);
    p = _mm512_fmadd_ps(p, r, c1_);
    p = _mm512_fmadd_ps(p, r, one_);
    return _mm512_scalef_ps(p, t);
  }

 private:
  __m512 log2e_, one_, c1_, c2_, c3_, c4_, c5_;
};

/// A subnormal result of VSCALEFPS costs 200 cycles here; flushed to 0 it costs none. Rounding is
/// set to nearest as well, whatever the caller's mode.
class FlushSubnormals {
 public:
  FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(0x9fc0); }
  ~FlushSubnormals() { _mm_setcsr(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  const unsigned before_;
};

/// bf16 pairs (even[lane], odd[lane]); round to nearest even, NaN stays NaN.
class PairOfWeights {
 public:
  PairOfWeights() {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i odd = _mm512_slli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(16)), 16);
    order_ = _mm512_or_si512(lane, odd);
  }
  __m512i operator()(__m512 even, __m512 odd) const {
    const __m512bh halves = _mm512_cvtne2ps_pbh(odd, even);
    __m512i bits;
    static_assert(sizeof bits == sizeof halves);
    __builtin_memcpy(&bits, &halves, sizeof bits);
    return _mm512_permutexvar_epi16(order_, bits);
  }

 private:
  __m512i order_;
};

/// What rounding took off the weights of `pairs`, rounded in turn.
inline __m512i rest_of_pair(const PairOfWeights& pair, __m512i pairs, __m512 even, __m512 odd) {
  const __m512 low = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  const __m512 high =
      _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(int(0xffff0000u))));
  return pair(_mm512_sub_ps(even, low), _mm512_sub_ps(odd, high));
}

/// A group's lanes of the running state, `lanes` apart from row to row of `output`.
struct GroupState {
  float *max, *sum, *output;
};

inline __m512 group_max(const float* scores, int keys, int lanes, __m512 start) {
  __m512 m[4] = {start, start, start, start};
  int k = 0;
  for (; k + 4 <= keys; k += 4)
    for (int i = 0; i < 4; ++i)
      m[i] = _mm512_max_ps(m[i], _mm512_load_ps(scores + (k + i) * lanes));
  for (; k < keys; ++k) m[0] = _mm512_max_ps(m[0], _mm512_load_ps(scores + k * lanes));
  return _mm512_max_ps(_mm512_max_ps(m[0], m[1]), _mm512_max_ps(m[2], m[3]));
}

/// True when every score is -inf. (A maximum of -inf does not say so: it may have lost a NaN.)
inline bool all_hidden(const float* scores, int keys, int lanes) {
  const __m512 hidden = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  __mmask16 all = 0xffff;
  for (int k = 0; k < keys; ++k)
    all &= _mm512_cmp_ps_mask(_mm512_load_ps(scores + k * lanes), hidden, _CMP_EQ_OQ);
  return all == 0xffff;
}

inline void rescale_output(float* output, int value_dim, int lanes, __m512 factor) {
  for (int c = 0; c < value_dim; ++c) {
    float* at = output + std::ptrdiff_t(c) * lanes;
    _mm512_store_ps(at, _mm512_mul_ps(_mm512_load_ps(at), factor));
  }
}

/// A score may exceed state.max while its weight is below a sixteenth of the row's sum, and below
/// e^8: a weight that counts is 1 and loses nothing when it is rounded (docs/numerics.md), and
/// output, which lies in L2, is seldom rescaled.
constexpr float max_headroom = 8.0f, max_share = 0.0625f;

/// The lanes whose maximum has to move to that of the tile.
inline __mmask16 outgrown(const GroupState& state, __m512 tile_max, __m512 old_max,
                          const WeightExp& exp) {
  const __mmask16 higher = _mm512_cmp_ps_mask(tile_max, old_max, _CMP_GT_OQ);
  if (higher == 0) return 0;
  const __mmask16 far = _mm512_cmp_ps_mask(
      tile_max, _mm512_add_ps(old_max, _mm512_set1_ps(max_headroom)), _CMP_GT_OQ);
  const __m512 counts = _mm512_mul_ps(_mm512_load_ps(state.sum), _mm512_set1_ps(max_share));
  const __m512 weight = exp(_mm512_maskz_sub_ps(higher & ~far, tile_max, old_max));
  return far | _mm512_mask_cmp_ps_mask(higher, weight, counts, _CMP_GT_OQ);
}

/// Raises max where a lane's scores call for it, and rescales sum and output; returns what to
/// subtract from the scores. A lane decides for itself: neighbours change no bit of it.
inline __m512 raise_max(const GroupState& state, int value_dim, int lanes, __m512 tile_max,
                        const WeightExp& exp) {
  const __m512 none = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  const __m512 old_max = _mm512_load_ps(state.max);
  const __mmask16 raised = outgrown(state, tile_max, old_max, exp);
  const __m512 new_max = _mm512_mask_mov_ps(old_max, raised, tile_max);
  // (-inf) - (-inf) is NaN when a row has seen no key yet: shift by 0 instead.
  const __mmask16 seen = _mm512_cmp_ps_mask(new_max, none, _CMP_NEQ_UQ);
  const __m512 shift = _mm512_maskz_mov_ps(seen, new_max);
  if (raised != 0) {
    const __m512 factor =
        _mm512_mask_blend_ps(raised, _mm512_set1_ps(1.0f), exp(_mm512_sub_ps(old_max, shift)));
    _mm512_store_ps(state.sum, _mm512_mul_ps(_mm512_load_ps(state.sum), factor));
    // A group that starts has only zeros to rescale.
    if (_mm512_cmp_ps_mask(old_max, none, _CMP_NEQ_UQ) != 0)
      rescale_output(state.output, value_dim, lanes, factor);
    _mm512_store_ps(state.max, new_max);
  }
  return shift;
}

enum class Seen { nothing, keys };

/// Online softmax of one group: see TileKernel::absorb. Writes the weights' pairs up to a whole
/// chunk of keys, and the second part `part_dwords` behind them. Returns Seen::nothing, and writes
/// no weights, where no lane has seen a key so far.
template <WeightParts parts> inline Seen absorb_group(const float* scores, int keys, int lanes,
                                                      const GroupState& state, int value_dim,
                                                      std::uint32_t* weights, int part_dwords) {
  const WeightExp exp;
  const PairOfWeights pair;
  const __m512 none = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  const __m512 tile_max = group_max(scores, keys, lanes, _mm512_load_ps(state.max));
  if (_mm512_cmp_ps_mask(tile_max, none, _CMP_NEQ_UQ) == 0 && all_hidden(scores, keys, lanes) &&
      _mm512_cmp_ps_mask(_mm512_load_ps(state.sum), _mm512_setzero_ps(), _CMP_NEQ_UQ) == 0)
    return Seen::nothing;
  const __m512 shift = raise_max(state, value_dim, lanes, tile_max, exp);

  __m512 even_sum = _mm512_load_ps(state.sum), odd_sum = _mm512_setzero_ps();
  const auto weight = [&](int k) {
    return exp(_mm512_sub_ps(_mm512_load_ps(scores + k * lanes), shift));
  };
  const auto write = [&](__m512 even, __m512 odd) {
    const __m512i rounded = pair(even, odd);
    _mm512_store_si512(weights, rounded);
    if constexpr (parts == WeightParts::two)
      _mm512_store_si512(weights + part_dwords, rest_of_pair(pair, rounded, even, odd));
    weights += group_lanes;
  };
  int k = 0;
#pragma GCC unroll 2
  for (; k + 2 <= keys; k += 2) {
    const __m512 even = weight(k), odd = weight(k + 1);
    even_sum = _mm512_add_ps(even_sum, even);
    odd_sum = _mm512_add_ps(odd_sum, odd);
    write(even, odd);
  }
  if (k < keys) {
    const __m512 even = weight(k);
    even_sum = _mm512_add_ps(even_sum, even);
    write(even, _mm512_setzero_ps());
    k += 2;
  }
  for (; k % chunk != 0; k += 2) write(_mm512_setzero_ps(), _mm512_setzero_ps());

  const __m512 sum = _mm512_add_ps(even_sum, odd_sum);
  _mm512_store_ps(state.sum, sum);
  // The vector maximum may drop a NaN; the sum keeps it, and max must not stay at -inf beside it.
  const __mmask16 nan = _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q);
  if (nan != 0) _mm512_mask_store_ps(state.max, nan, sum);
  return Seen::keys;
}

/// Every group of the tile. Never inlined, so that no arithmetic moves across FlushSubnormals.
template <WeightParts parts>
[[gnu::noinline]] inline void absorb_groups(const float* scores, int keys, int value_dim, int lanes,
                                            const RowState<float>& state, void* weights) {
  auto* header = static_cast<Groups*>(weights);
  auto* blocks = static_cast<std::uint32_t*>(weights) + header_dwords;
  const int groups = lanes / group_lanes;
  header->count = 0;
  header->parts = parts == WeightParts::two ? 2 : 1;
  for (int g = 0; g < groups; ++g) {
    const int lane = g * group_lanes;
    const GroupState group{state.max + lane, state.sum + lane, state.output + lane};
    if (absorb_group<parts>(scores + lane, keys, lanes, group, value_dim,
                            blocks + g * group_weight_dwords,
                            groups * group_weight_dwords) == Seen::keys)
      header->index[header->count++] = g;
  }
}

/// The header of `weights` lists the groups that accumulate() has to visit.
inline void absorb(const float* scores, int keys, int value_dim, int lanes,
                   const RowState<float>& state, WeightParts parts, void* weights) {
  const FlushSubnormals flush;
  if (parts == WeightParts::two)
    absorb_groups<WeightParts::two>(scores, keys, value_dim, lanes, state, weights);
  else
    absorb_groups<WeightParts::one>(scores, keys, value_dim, lanes, state, weights);
}

}  // namespace tilefold::cpu::bf16

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC diagnostic pop
#pragma GCC pop_options
#endif

#endif
