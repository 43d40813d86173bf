// The bf16 tile kernel for AVX512-BF16: VDPBF16PS, which adds two products a lane in f32.
//
// Keys are read as they are stored: a 32-bit broadcast is a pair of neighbouring dims, multiplied
// with the same pair of 16 queries. Values are packed as pairs of rows, for the sum runs over keys
// there. A block of 12 keys (or columns) by 2 groups of lanes keeps 24 of the 32 registers as sums.
#include "cpu/bf16_kernels.hpp"

#if defined(__x86_64__)

#include <cstring>

#include "cpu/bf16_cpu.hpp"
#include "cpu/bf16_tile.hpp"

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

namespace tilefold::cpu {
namespace {

using bf16::block_dwords;
using bf16::chunk;
using bf16::group_lanes;
using bf16::Groups;

constexpr int lanes_ = 32;
constexpr int groups_ = lanes_ / group_lanes;
constexpr int block_rows = 12;

__m512bh as_pairs(__m512i bits) {
  __m512bh pairs;
  static_assert(sizeof pairs == sizeof bits);
  __builtin_memcpy(&pairs, &bits, sizeof pairs);
  return pairs;
}

/// A step's left side: `rows` rows, each a sequence of pairs that are `pair_stride` bytes apart.
struct PairRows {
  const unsigned char* data;
  std::ptrdiff_t row_stride, pair_stride;  // bytes
};

/// sums[row][group] += pair p of each row times pair p of the lanes, for `pairs` pairs of one
/// chunk.
template <int rows, int groups>
inline void multiply_pairs(const PairRows& left, const std::uint32_t* const* right, int pairs,
                           __m512 (&sums)[rows][groups]) {
  for (int p = 0; p < pairs; ++p) {
    __m512bh lanes[groups];
    for (int g = 0; g < groups; ++g)
      lanes[g] = as_pairs(_mm512_load_si512(right[g] + p * group_lanes));
    const unsigned char* at = left.data + p * left.pair_stride;
    for (int r = 0; r < rows; ++r) {
      std::int32_t pair;
      std::memcpy(&pair, at + r * left.row_stride, sizeof pair);
      const __m512bh broadcast = as_pairs(_mm512_set1_epi32(pair));
      for (int g = 0; g < groups; ++g)
        sums[r][g] = _mm512_dpbf16_ps(sums[r][g], lanes[g], broadcast);
    }
  }
}

/// The last dim of an odd head_dim: two bytes of the row, not four.
template <int rows, int groups> inline void multiply_last(const PairRows& left,
                                                          const std::uint32_t* const* right,
                                                          __m512 (&sums)[rows][groups]) {
  for (int r = 0; r < rows; ++r) {
    std::uint16_t single;
    std::memcpy(&single, left.data + r * left.row_stride, sizeof single);
    const __m512bh broadcast = as_pairs(_mm512_set1_epi32(single));
    for (int g = 0; g < groups; ++g)
      sums[r][g] = _mm512_dpbf16_ps(sums[r][g], as_pairs(_mm512_load_si512(right[g])), broadcast);
  }
}

/// scores of `rows` keys from `key` on, for the query groups from `group` on.
template <int rows, int groups> inline void score_block(const std::uint32_t* query,
                                                        const TileRows& keys, int key, int group,
                                                        float scale, float* scores) {
  __m512 sums[rows][groups] = {};
  PairRows left{static_cast<const unsigned char*>(keys.data) + 2 * key * keys.row_stride,
                2 * keys.row_stride, 4};
  for (int d = 0; d < keys.columns; d += chunk, left.data += 2 * chunk) {
    const std::uint32_t* right[groups];
    for (int g = 0; g < groups; ++g)
      right[g] = query + (d / chunk * groups_ + group + g) * block_dwords;
    const int dims = keys.columns - d < chunk ? keys.columns - d : chunk;
    multiply_pairs(left, right, dims / 2, sums);
    if (dims % 2 != 0) {
      for (int g = 0; g < groups; ++g) right[g] += dims / 2 * group_lanes;
      multiply_last({left.data + 2 * (dims - 1), left.row_stride, 0}, right, sums);
    }
  }
  const __m512 factor = _mm512_set1_ps(scale);
  for (int r = 0; r < rows; ++r)
    for (int g = 0; g < groups; ++g)
      _mm512_store_ps(scores + (key + r) * lanes_ + (group + g) * group_lanes,
                      _mm512_mul_ps(sums[r][g], factor));
}

/// output of `rows` columns from `column` on, for the lane groups that `index` names.
template <int rows, int groups>
inline void output_block(const std::uint32_t* weights, const int* index, const TileRows& values,
                         const std::uint32_t* packed, int column, float* output) {
  const auto at = [&](int r, int g) {
    return output + std::ptrdiff_t(column + r) * lanes_ + index[g] * group_lanes;
  };
  __m512 sums[rows][groups];
  for (int r = 0; r < rows; ++r)
    for (int g = 0; g < groups; ++g) sums[r][g] = _mm512_load_ps(at(r, g));
  const std::uint32_t* right[groups];
  for (int g = 0; g < groups; ++g) right[g] = weights + index[g] * bf16::group_weight_dwords;
  const std::ptrdiff_t row_of_pairs = 4 * bf16::divide_up(values.columns, 16) * 16;
  multiply_pairs({reinterpret_cast<const unsigned char*>(packed + column), 4, row_of_pairs}, right,
                 bf16::divide_up(values.rows, 2), sums);
  for (int r = 0; r < rows; ++r)
    for (int g = 0; g < groups; ++g) _mm512_store_ps(at(r, g), sums[r][g]);
}

/// visit.template operator()<n>(first) over blocks of 12, 4 and 1 rows.
template <class Visit> inline void for_blocks(int rows, const Visit& visit) {
  int r = 0;
  for (; r + block_rows <= rows; r += block_rows) visit.template operator()<block_rows>(r);
  for (; r + 4 <= rows; r += 4) visit.template operator()<4>(r);
  for (; r < rows; ++r) visit.template operator()<1>(r);
}

void compute_scores(const void* packed_query, const TileRows& keys, float scale, float* scores) {
  const int groups = static_cast<const Groups*>(packed_query)->count;
  const auto* query = static_cast<const std::uint32_t*>(packed_query) + bf16::header_dwords;
  for_blocks(keys.rows, [&]<int rows>(int key) {
    if (groups == groups_) score_block<rows, groups_>(query, keys, key, 0, scale, scores);
    if (groups == 1) score_block<rows, 1>(query, keys, key, 0, scale, scores);
  });
  for (int g = groups; g < groups_; ++g)
    bf16::hide_group(scores + g * group_lanes, keys.rows, lanes_);
}

/// Of one part of the weights, which begins at `pairs`.
void add_part(const Groups* header, const std::uint32_t* pairs, const TileRows& values,
              const void* packed, float* output) {
  const auto* rows_of_pairs = static_cast<const std::uint32_t*>(packed);
  for_blocks(values.columns, [&]<int columns>(int column) {
    if (header->count == groups_)
      output_block<columns, groups_>(pairs, header->index, values, rows_of_pairs, column, output);
    if (header->count == 1)
      output_block<columns, 1>(pairs, header->index, values, rows_of_pairs, column, output);
  });
}

void add_outputs(const void* weights, const TileRows& values, const void* packed, float* output) {
  const auto* header = static_cast<const Groups*>(weights);
  const auto* pairs = static_cast<const std::uint32_t*>(weights) + bf16::header_dwords;
  for (int part = 0; part < header->parts; ++part)
    add_part(header, pairs + part * groups_ * bf16::group_weight_dwords, values, packed, output);
}

/// [pair of keys][column], columns up to a multiple of 16 and an odd last key's partner are zeros.
void pack_row_pairs(const TileRows& rows, std::uint32_t* packed) {
  const auto* data = static_cast<const std::uint16_t*>(rows.data);
  for (int k = 0; k < rows.rows; k += 2) {
    const std::uint16_t* even = data + k * rows.row_stride;
    const bool odd_exists = k + 1 < rows.rows;
    for (int c = 0; c < rows.columns; c += 16, packed += 16)
      _mm512_store_si512(packed,
                         bf16::load_pairs(even + c, odd_exists ? even + rows.row_stride + c : even,
                                          rows.columns - c, odd_exists));
  }
}

}  // namespace
}  // namespace tilefold::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC diagnostic pop
#pragma GCC pop_options
#endif

namespace tilefold::cpu {
namespace {

class Bf16Avx512Kernel final : public TileKernel<float> {
 public:
  const char* name() const override { return "cpu/bf16/avx512"; }
  int lanes() const override { return lanes_; }
  int tile_keys() const override { return bf16::max_tile_keys; }
  int key_step() const override { return chunk; }
  DType element() const override { return DType::bf16; }

  std::size_t packed_query_bytes(int head_dim) const override {
    return bf16::bytes_of_blocks(bf16::divide_up(head_dim, chunk) * groups_);
  }
  std::size_t packed_key_bytes(int) const override { return 0; }
  std::size_t packed_value_bytes(int value_dim) const override {
    return std::size_t(bf16::max_tile_keys) / 2 * 64 * std::size_t(bf16::divide_up(value_dim, 16));
  }
  std::size_t weight_bytes() const override {
    return bf16::bytes_of_blocks(2 * groups_ * bf16::max_tile_keys / chunk);
  }
  void pack_query(const TileRows& rows, void* packed) const override {
    bf16::pack_query(rows, groups_, packed);
  }
  void pack_key(const TileRows&, void*) const override {}
  void pack_value(const TileRows& rows, void* packed) const override {
    pack_row_pairs(rows, static_cast<std::uint32_t*>(packed));
  }
  void scores(const void* packed_query, const TileRows& keys, const void*, float scale,
              float* scores) const override {
    compute_scores(packed_query, keys, scale, scores);
  }
  void absorb(float* scores, int keys, int value_dim, const RowState<float>& state,
              WeightParts parts, void* weights) const override {
    bf16::absorb(scores, keys, value_dim, lanes_, state, parts, weights);
  }
  void accumulate(const void* weights, const TileRows& values, const void* packed_values,
                  float* output) const override {
    add_outputs(weights, values, packed_values, output);
  }
};

}  // namespace

const TileKernel<float>* bf16_avx512_kernel() {
  static const Bf16Avx512Kernel kernel;
  static const bool available = cpu_has(Bf16Extension::avx512);
  return available ? &kernel : nullptr;
}

}  // namespace tilefold::cpu

#else

namespace tilefold::cpu {
const TileKernel<float>* bf16_avx512_kernel() { return nullptr; }
}  // namespace tilefold::cpu

#endif
