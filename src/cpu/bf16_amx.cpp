// The bf16 tile kernel for AMX: TDPBF16PS on tiles of 16 rows by 32 bf16.
//
//   scores^T [key][lane]    = K (rows as they are)        x Q^T (pairs of dims)
//   output^T [column][lane] += V^T (transposed once a tile) x weights (pairs of keys, from
//   absorb())
//
// Keys and values are packed as contiguous 1 KiB blocks, padded with zeros: a tile load then meets
// neither the ends of the rows nor a row stride that maps all its lines to a few cache sets.
//   packed keys    [16 keys][chunk of 32 dims][16][32]
//   packed values  [16 columns][chunk of 32 keys][16][32]
// A step works on 2 x 2 tiles of sums: four TDPBF16PS for every four tile loads.
#include "cpu/bf16_kernels.hpp"

#if defined(__x86_64__) && defined(__linux__)

#include <sys/syscall.h>
#include <unistd.h>

#include "cpu/bf16_cpu.hpp"
#include "cpu/bf16_tile.hpp"

#if defined(__clang__)
#pragma clang attribute push(                                                                   \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC diagnostic push
// g++ 12 takes the undefined vectors inside its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")
#endif

namespace tilefold::cpu {
namespace {

using bf16::block_dwords;
using bf16::chunk;
using bf16::divide_up;
using bf16::group_lanes;
using bf16::Groups;

constexpr int lanes_ = 32;
constexpr int groups_ = lanes_ / group_lanes;
constexpr int tile_rows = 16;
constexpr int tile_row_bytes = 64;
constexpr int lane_row_bytes = lanes_ * int(sizeof(float));

/// All eight tiles at their full size: tails are zeros of the packed blocks.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

inline void load_tile_config() {
  static constexpr TileConfig config;
  _tile_loadconfig(&config);
}

/// True between begin_thread() and end_thread(): this thread's tiles stay configured.
thread_local bool tiles_configured = false;

/// Tile registers of this thread while a step runs. Outside of begin_thread() they are released
/// afterwards: no state is left for a caller to trip over.
class TileRegisters {
 public:
  TileRegisters() : borrowed_(!tiles_configured) {
    if (borrowed_) load_tile_config();
  }
  ~TileRegisters() {
    if (borrowed_) _tile_release();
  }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

 private:
  const bool borrowed_;
};

void begin_tiles() {
  load_tile_config();
  tiles_configured = true;
}
void end_tiles() {
  _tile_release();
  tiles_configured = false;
}

/// g++'s tile loads do not say that they read memory: nothing may be stored late across this line.
inline void stores_before_tile_loads() { __asm__ volatile("" ::: "memory"); }

/// One dot-product step's operands: block i of the left side and of the right side.
struct Operands {
  const std::uint32_t *left[2], *right[2];
  std::ptrdiff_t left_step, right_step;  // dwords from one chunk to the next
};

/// Sums stay in tiles 0 to 3: tile 2 * (left block) + (right block).
template <int left, int right> inline void multiply_chunks(Operands at, int chunks) {
  for (int c = 0; c < chunks; ++c) {
    _tile_loadd(6, at.right[0], tile_row_bytes);
    _tile_loadd(4, at.left[0], tile_row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (right == 2) {
      _tile_loadd(7, at.right[1], tile_row_bytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (left == 2) {
      _tile_loadd(5, at.left[1], tile_row_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (right == 2) _tile_dpbf16ps(3, 5, 7);
    }
    for (int i = 0; i < 2; ++i) {
      at.left[i] += at.left_step;
      at.right[i] += at.right_step;
    }
  }
}

/// Where the four tiles of sums lie: [2 * (left block) + (right block)], rows row_bytes apart.
struct Sums {
  float* at[4];
  int row_bytes;
};

template <int left, int right> inline void clear_sums() {
  _tile_zero(0);
  if constexpr (right == 2) _tile_zero(1);
  if constexpr (left == 2) _tile_zero(2);
  if constexpr (left == 2 && right == 2) _tile_zero(3);
}
template <int left, int right> inline void load_sums(const Sums& sums) {
  _tile_loadd(0, sums.at[0], sums.row_bytes);
  if constexpr (right == 2) _tile_loadd(1, sums.at[1], sums.row_bytes);
  if constexpr (left == 2) _tile_loadd(2, sums.at[2], sums.row_bytes);
  if constexpr (left == 2 && right == 2) _tile_loadd(3, sums.at[3], sums.row_bytes);
}
template <int left, int right> inline void store_sums(const Sums& sums) {
  _tile_stored(0, sums.at[0], sums.row_bytes);
  if constexpr (right == 2) _tile_stored(1, sums.at[1], sums.row_bytes);
  if constexpr (left == 2) _tile_stored(2, sums.at[2], sums.row_bytes);
  if constexpr (left == 2 && right == 2) _tile_stored(3, sums.at[3], sums.row_bytes);
}

/// visit.template operator()<left, right>(left block, right block) over 2 x 2 blocks and the rests.
template <class Visit> inline void for_block_pairs(int lefts, int rights, const Visit& visit) {
  for (int l = 0; l < lefts; l += 2)
    for (int r = 0; r < rights; r += 2) {
      const bool two_left = l + 1 < lefts, two_right = r + 1 < rights;
      if (two_left && two_right) visit.template operator()<2, 2>(l, r);
      if (two_left && !two_right) visit.template operator()<2, 1>(l, r);
      if (!two_left && two_right) visit.template operator()<1, 2>(l, r);
      if (!two_left && !two_right) visit.template operator()<1, 1>(l, r);
    }
}

/// Scores that still lack their scale. A block is multiplied while the next one's dot products run,
/// so that the vector units work beside the tile unit and meet no row that has just been stored.
struct ScaledBlock {
  float* first = nullptr;
  int keys = 0, groups = 0;

  void multiply(float scale) const {
    const __m512 factor = _mm512_set1_ps(scale);
    stores_before_tile_loads();
    for (int k = 0; k < keys; ++k)
      for (int g = 0; g < groups; ++g) {
        float* at = first + k * lanes_ + g * group_lanes;
        _mm512_store_ps(at, _mm512_mul_ps(_mm512_load_ps(at), factor));
      }
  }
};

void compute_scores(const void* packed_query, const TileRows& keys, const void* packed_keys,
                    float scale, float* scores) {
  const int groups = static_cast<const Groups*>(packed_query)->count;
  const auto* query = static_cast<const std::uint32_t*>(packed_query) + bf16::header_dwords;
  const auto* key_blocks = static_cast<const std::uint32_t*>(packed_keys);
  const int chunks = divide_up(keys.columns, chunk);
  ScaledBlock previous;
  const TileRegisters registers;
  stores_before_tile_loads();
  for_block_pairs(divide_up(keys.rows, tile_rows), groups, [&]<int left, int right>(int k, int g) {
    clear_sums<left, right>();
    const std::uint32_t* key = key_blocks + k * chunks * block_dwords;
    const std::uint32_t* lane = query + g * block_dwords;
    multiply_chunks<left, right>({{key, key + chunks * block_dwords},
                                  {lane, lane + block_dwords},
                                  block_dwords,
                                  groups_ * block_dwords},
                                 chunks);
    float* first = scores + k * tile_rows * lanes_ + g * group_lanes;
    float* second = first + tile_rows * lanes_;
    previous.multiply(scale);
    store_sums<left, right>(
        {{first, first + group_lanes, second, second + group_lanes}, lane_row_bytes});
    previous = {first, left * tile_rows, right};
  });
  previous.multiply(scale);
  for (int g = groups; g < groups_; ++g)
    bf16::hide_group(scores + g * group_lanes, keys.rows, lanes_);
}

/// The last columns, fewer than 16: their sums go through a whole tile beside the output.
template <int right>
void add_last_columns(const Operands& operands, int chunks, int columns, const Sums& output) {
  alignas(64) float whole[2][tile_rows * group_lanes] = {};
  const Sums sums{{whole[0], whole[1], nullptr, nullptr}, tile_row_bytes};
  const auto copy = [&](int c, int i) { return output.at[i] + c * lanes_; };
  for (int i = 0; i < right; ++i)
    for (int c = 0; c < columns; ++c)
      _mm512_store_ps(whole[i] + c * group_lanes, _mm512_load_ps(copy(c, i)));
  stores_before_tile_loads();
  load_sums<1, right>(sums);
  multiply_chunks<1, right>(operands, chunks);
  store_sums<1, right>(sums);
  for (int i = 0; i < right; ++i)
    for (int c = 0; c < columns; ++c)
      _mm512_store_ps(copy(c, i), _mm512_load_ps(whole[i] + c * group_lanes));
}

/// Of one part of the weights, which begins at `pairs`.
void add_part(const Groups* header, const std::uint32_t* pairs, const TileRows& values,
              const void* packed_values, float* output) {
  const auto* value_blocks = static_cast<const std::uint32_t*>(packed_values);
  const int chunks = divide_up(values.rows, chunk);
  const int whole_tiles = values.columns / tile_rows, rest = values.columns % tile_rows;
  const auto operands = [&](int column_tile, int g) {
    const std::uint32_t* value = value_blocks + column_tile * chunks * block_dwords;
    const auto lane = [&](int i) {
      return pairs + header->index[i < header->count ? i : g] * bf16::group_weight_dwords;
    };
    return Operands{
        {value, value + chunks * block_dwords}, {lane(g), lane(g + 1)}, block_dwords, block_dwords};
  };
  const auto sums = [&](int column_tile, int g) {
    float* row = output + std::ptrdiff_t(column_tile) * tile_rows * lanes_;
    float* next = row + tile_rows * lanes_;
    const int a = header->index[g] * group_lanes;
    const int b = header->index[g + 1 < header->count ? g + 1 : g] * group_lanes;
    return Sums{{row + a, row + b, next + a, next + b}, lane_row_bytes};
  };
  const TileRegisters registers;
  stores_before_tile_loads();
  for_block_pairs(whole_tiles, header->count, [&]<int left, int right>(int c, int g) {
    load_sums<left, right>(sums(c, g));
    multiply_chunks<left, right>(operands(c, g), chunks);
    store_sums<left, right>(sums(c, g));
  });
  if (rest != 0)
    for_block_pairs(1, header->count, [&]<int left, int right>(int, int g) {
      add_last_columns<right>(operands(whole_tiles, g), chunks, rest, sums(whole_tiles, g));
    });
}

void add_outputs(const void* weights, const TileRows& values, const void* packed_values,
                 float* output) {
  const auto* header = static_cast<const Groups*>(weights);
  const auto* pairs = static_cast<const std::uint32_t*>(weights) + bf16::header_dwords;
  for (int part = 0; part < header->parts; ++part)
    add_part(header, pairs + part * groups_ * bf16::group_weight_dwords, values, packed_values,
             output);
}

void pack_key_blocks(const TileRows& rows, std::uint32_t* packed) {
  const auto* data = static_cast<const std::uint16_t*>(rows.data);
  for (int k = 0; k < rows.rows; k += tile_rows)
    for (int d = 0; d < rows.columns; d += chunk)
      for (int r = k; r < k + tile_rows; ++r, packed += group_lanes) {
        const bool exists = r < rows.rows;
        _mm512_store_si512(packed, bf16::load_row(data + (exists ? r * rows.row_stride + d : 0),
                                                  exists ? rows.columns - d : 0));
      }
}

void pack_value_blocks(const TileRows& rows, std::uint32_t* packed) {
  const auto* data = static_cast<const std::uint16_t*>(rows.data);
  alignas(64) std::uint32_t natural[block_dwords];
  for (int c = 0; c < rows.columns; c += tile_rows)
    for (int k = 0; k < rows.rows; k += chunk, packed += block_dwords) {
      for (int pair = 0; pair < 16; ++pair) {
        const int even = k + 2 * pair;
        const bool exists = even < rows.rows, odd_exists = even + 1 < rows.rows;
        const std::uint16_t* at = data + (exists ? even * rows.row_stride + c : 0);
        _mm512_store_si512(natural + pair * group_lanes,
                           bf16::load_pairs(at, odd_exists ? at + rows.row_stride : at,
                                            exists ? rows.columns - c : 0, odd_exists));
      }
      bf16::transpose_block(natural, packed);
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

class Bf16AmxKernel final : public TileKernel<float> {
 public:
  const char* name() const override { return "cpu/bf16/amx"; }
  int lanes() const override { return lanes_; }
  int tile_keys() const override { return bf16::max_tile_keys; }
  int key_step() const override { return chunk; }
  DType element() const override { return DType::bf16; }
  void begin_thread() const override { begin_tiles(); }
  void end_thread() const override { end_tiles(); }

  std::size_t packed_query_bytes(int head_dim) const override {
    return bf16::bytes_of_blocks(divide_up(head_dim, chunk) * groups_);
  }
  std::size_t packed_key_bytes(int head_dim) const override {
    constexpr int tiles = bf16::max_tile_keys / tile_rows;
    return std::size_t(tiles * divide_up(head_dim, chunk)) * block_dwords * sizeof(std::uint32_t);
  }
  std::size_t packed_value_bytes(int value_dim) const override {
    constexpr int chunks = bf16::max_tile_keys / chunk;
    return std::size_t(chunks * divide_up(value_dim, tile_rows)) * block_dwords *
           sizeof(std::uint32_t);
  }
  std::size_t weight_bytes() const override {
    return bf16::bytes_of_blocks(2 * groups_ * bf16::max_tile_keys / chunk);
  }
  void pack_query(const TileRows& rows, void* packed) const override {
    bf16::pack_query(rows, groups_, packed);
  }
  void pack_key(const TileRows& rows, void* packed) const override {
    pack_key_blocks(rows, static_cast<std::uint32_t*>(packed));
  }
  void pack_value(const TileRows& rows, void* packed) const override {
    pack_value_blocks(rows, static_cast<std::uint32_t*>(packed));
  }
  void scores(const void* packed_query, const TileRows& keys, const void* packed_keys, float scale,
              float* scores) const override {
    compute_scores(packed_query, keys, packed_keys, scale, scores);
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

/// The tile registers' 8 KiB are given to a process that asks.
bool tile_registers_granted() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

const TileKernel<float>* bf16_amx_kernel() {
  static const Bf16AmxKernel kernel;
  static const bool available = cpu_has(Bf16Extension::amx) && tile_registers_granted();
  return available ? &kernel : nullptr;
}

}  // namespace tilefold::cpu

#else

namespace tilefold::cpu {
const TileKernel<float>* bf16_amx_kernel() { return nullptr; }
}  // namespace tilefold::cpu

#endif
