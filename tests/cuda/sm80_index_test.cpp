// Index arithmetic of the sm80 forward, on the host: where tiles lie in shared memory, which lane
// holds what, which keys a block visits, and addresses past 2^31.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "cuda/kernels/sm80/lanes.hpp"
#include "cuda/kernels/sm80/registry.hpp"
#include "cuda/kernels/sm80/rows.hpp"
#include "cuda/tile/fragment.cuh"
#include "cuda/tile/swizzle.cuh"

namespace tilefold::cuda {
namespace {

using sm80::KeySpan;
using sm80::Lanes;
using sm80::Row;

// ---- shared memory
// -----------------------------------------------------------------------------------

/// Shared memory serves 128 bytes at once: 8 chunks of 16 bytes, each from another bank group.
int worst_bank_conflict(const std::vector<int>& byte_offsets) {
  std::map<int, std::set<int>> lines_of_group;
  int worst = 0;
  for (int offset : byte_offsets) {
    auto& lines = lines_of_group[offset / 16 % 8];
    lines.insert(offset / 128);
    worst = std::max(worst, int(lines.size()));
  }
  return worst;
}

template <class Columns> class SwizzledTile : public testing::Test {};
template <int n> struct Width { static constexpr int columns = n; };
using Widths = testing::Types<Width<32>, Width<64>, Width<96>, Width<128>, Width<192>, Width<256>>;
TYPED_TEST_SUITE(SwizzledTile, Widths);

TYPED_TEST(SwizzledTile, IsABijectionOfItsBytes) {
  using Tile = Swizzle<TypeParam::columns>;
  std::set<int> offsets;
  for (int row = 0; row < 64; ++row)
    for (int chunk = 0; chunk < Tile::chunks; ++chunk) {
      const int offset = Tile::offset(row, chunk);
      EXPECT_EQ(offset / Tile::row_bytes, row)
          << "a chunk leaves its row: " << row << ", " << chunk;
      EXPECT_TRUE(offsets.insert(offset).second) << "two chunks share " << offset;
    }
  EXPECT_EQ(int(offsets.size()), 64 * Tile::chunks);
}

TYPED_TEST(SwizzledTile, LdmatrixMeetsNoBankTwice) {
  constexpr int columns = TypeParam::columns;
  for (const auto& place : {query_matrix_row, key_matrix_row, value_matrix_row})
    for (int pair = 0; pair < columns / 16; ++pair)
      for (int matrix = 0; matrix < 4; ++matrix) {
        std::vector<int> offsets;
        for (int lane = 8 * matrix; lane < 8 * matrix + 8; ++lane) {
          const MatrixRow at = place(lane);
          offsets.push_back(LaneAddress<columns>::of(at.row, at.chunk).at(pair));
        }
        EXPECT_EQ(worst_bank_conflict(offsets), 1)
            << "chunk pair " << pair << ", matrix " << matrix;
      }
}

// What `tilefold ladder --profile` shows of sm80_f16_plain_rows, by arithmetic.
TEST(PlainRows, LdmatrixMeetsOneBankGroupEightTimes) {
  for (int pair = 0; pair < 128 / 16; ++pair) {
    std::vector<int> offsets;
    for (int lane = 0; lane < 8; ++lane) {
      const MatrixRow at = key_matrix_row(lane);
      const auto address = LaneAddress<128, SharedLayout::plain>::of(at.row, at.chunk);
      offsets.push_back(address.at(pair));
      EXPECT_EQ(offsets.back(),
                (Swizzle<128, SharedLayout::plain>::offset(at.row, 2 * pair + at.chunk)));
    }
    EXPECT_EQ(worst_bank_conflict(offsets), 8) << "columns from " << 16 * pair;
  }
}

TYPED_TEST(SwizzledTile, LaneAddressIsTheSwizzle) {
  constexpr int columns = TypeParam::columns;
  for (int row = 0; row < 16; ++row)
    for (int bit = 0; bit < 2; ++bit)
      for (int pair = 0; pair < columns / 16; ++pair)
        for (int block = 0; block < 4; ++block)
          EXPECT_EQ(LaneAddress<columns>::of(row, bit).at(pair) +
                        16 * block * Swizzle<columns>::row_bytes,
                    Swizzle<columns>::offset(row + 16 * block, 2 * pair + bit))
              << "row " << row << ", block " << block << ", chunk " << 2 * pair + bit;
}

template <int columns, int threads> void expect_loader_covers_tile() {
  using L = Lanes<columns, threads>;
  const int passes = 2;
  std::map<int, int> source_of;  // byte in shared memory -> row * chunks + chunk of the source
  for (int pass = 0; pass < passes; ++pass)
    for (int group = 0; group < L::groups; ++group)
      for (int first = 0; first < threads; first += 8) {
        std::vector<int> phase;
        for (int thread = first; thread < first + 8; ++thread) {
          const int offset = L::offset(thread) + L::step(pass, group);
          const int row = L::row(thread) + pass * L::rows_a_pass;
          const int chunk = L::chunk(thread) + group * L::across;
          EXPECT_EQ(offset, Swizzle<columns>::offset(row, chunk))
              << "row " << row << " of " << columns;
          EXPECT_TRUE(source_of.emplace(offset, row).second) << offset << " is written twice";
          phase.push_back(offset);
        }
        EXPECT_EQ(worst_bank_conflict(phase), 1) << columns << " columns, thread " << first;
      }
  EXPECT_EQ(int(source_of.size()), passes * L::rows_a_pass * Swizzle<columns>::chunks);
}

TYPED_TEST(SwizzledTile, CopiesCoverTheTileOnceWithoutConflicts) {
  expect_loader_covers_tile<TypeParam::columns, 128>();
  expect_loader_covers_tile<TypeParam::columns, 256>();
}

TYPED_TEST(SwizzledTile, ColumnsThatDoNotExistAreNotRead) {
  using L = Lanes<TypeParam::columns, 128>;
  for (int present = 8; present <= TypeParam::columns; present += 8) {
    int bytes = 0;
    for (int thread = 0; thread < L::across; ++thread)
      for (int group = 0; group < L::groups; ++group) bytes += L::bytes(thread, group, present);
    EXPECT_EQ(bytes, 2 * present) << "of a row";
  }
}

// ---- fragments
// ---------------------------------------------------------------------------------------

/// A warp's four registers of pairs, and what the instructions do to them by the PTX manual.
using Registers = std::array<std::array<std::array<int, 2>, 4>, 32>;  // [lane][register][half]

/// ldmatrix.x4 on a tile of integers stored as the loader stores it.
template <int columns> Registers ldmatrix(const std::vector<int>& shared,
                                          const std::array<int, 32>& addresses, bool transposed) {
  Registers out{};
  for (int lane = 0; lane < 32; ++lane)
    for (int matrix = 0; matrix < 4; ++matrix)
      for (int half = 0; half < 2; ++half) {
        const int row = transposed ? 2 * (lane % 4) + half : lane / 4;
        const int column = transposed ? lane / 4 : 2 * (lane % 4) + half;
        const int address = addresses[std::size_t(8 * matrix + row)];
        out[std::size_t(lane)][std::size_t(matrix)][std::size_t(half)] =
            shared[std::size_t(address / 2 + column)];
      }
  return out;
}

/// sum += a b for one 16 x 8 x 16 product; b is registers `first`, `first + 1`.
void mma(std::array<std::array<int, 4>, 32>& sum, const Registers& a, const Registers& b,
         int first) {
  int left[16][16] = {}, right[16][8] = {};
  for (int lane = 0; lane < 32; ++lane)
    for (int half = 0; half < 2; ++half) {
      for (int r = 0; r < 4; ++r) {
        const Place2D at = a_place(lane, r, half);
        left[at.row][at.column] = a[std::size_t(lane)][std::size_t(r)][std::size_t(half)];
      }
      for (int r = 0; r < 2; ++r) {
        const Place2D at = b_place(lane, r, half);
        right[at.row][at.column] = b[std::size_t(lane)][std::size_t(first + r)][std::size_t(half)];
      }
    }
  for (int lane = 0; lane < 32; ++lane)
    for (int e = 0; e < 4; ++e) {
      const Place2D at = sum_place(lane, e);
      for (int k = 0; k < 16; ++k)
        sum[std::size_t(lane)][std::size_t(e)] += left[at.row][k] * right[k][at.column];
    }
}

template <int columns> struct IntegerTile {
  std::vector<int> plain, shared;
  IntegerTile(int rows, unsigned seed) : plain(std::size_t(rows * columns)), shared(plain.size()) {
    std::mt19937 random(seed);
    for (int row = 0; row < rows; ++row)
      for (int c = 0; c < columns; ++c) {
        const int x = int(random() % 17) - 8;
        plain[std::size_t(row * columns + c)] = x;
        shared[std::size_t(Swizzle<columns>::offset(row, c / 8) / 2 + c % 8)] = x;
      }
  }
  int at(int row, int column) const { return plain[std::size_t(row * columns + column)]; }
};

template <int columns, class Place>
std::array<int, 32> lane_addresses(const Place& place, int pair, int first_row) {
  std::array<int, 32> addresses{};
  for (int lane = 0; lane < 32; ++lane) {
    const MatrixRow at = place(lane);
    addresses[std::size_t(lane)] = LaneAddress<columns>::of(at.row, at.chunk).at(pair) +
                                   first_row * Swizzle<columns>::row_bytes;
  }
  return addresses;
}

TYPED_TEST(SwizzledTile, TheTwoProductsThroughFragmentsAreTheTwoProducts) {
  constexpr int columns = TypeParam::columns;
  const IntegerTile<columns> query(16, 1), key(16, 2), value(16, 3);
  std::array<std::array<int, 4>, 32> scores[2] = {};
  for (int step = 0; step < columns / 16; ++step) {
    const auto a =
        ldmatrix<columns>(query.shared, lane_addresses<columns>(query_matrix_row, step, 0), false);
    const auto b =
        ldmatrix<columns>(key.shared, lane_addresses<columns>(key_matrix_row, step, 0), false);
    for (int group = 0; group < 2; ++group) mma(scores[group], a, b, 2 * group);
  }
  Registers weights{};  // as Computer::weigh packs them
  for (int lane = 0; lane < 32; ++lane)
    for (int group = 0; group < 2; ++group)
      for (int e = 0; e < 4; ++e) {
        const Place2D at = sum_place(lane, e);
        int expected = 0;
        for (int c = 0; c < columns; ++c)
          expected += query.at(at.row, c) * key.at(8 * group + at.column, c);
        const int score = scores[group][std::size_t(lane)][std::size_t(e)];
        ASSERT_EQ(score, expected) << "row " << at.row << ", key " << 8 * group + at.column;
        weights[std::size_t(lane)][std::size_t(e / 2 + 2 * group)][std::size_t(e % 2)] = score;
      }
  for (int pair = 0; pair < columns / 16; ++pair) {
    const auto b =
        ldmatrix<columns>(value.shared, lane_addresses<columns>(value_matrix_row, pair, 0), true);
    for (int group = 0; group < 2; ++group) {
      std::array<std::array<int, 4>, 32> output{};
      mma(output, weights, b, 2 * group);
      for (int lane = 0; lane < 32; ++lane)
        for (int e = 0; e < 4; ++e) {
          const Place2D at = sum_place(lane, e);
          const int column = 16 * pair + 8 * group + at.column;
          int expected = 0;
          for (int k = 0; k < 16; ++k) {
            int s = 0;
            for (int c = 0; c < columns; ++c) s += query.at(at.row, c) * key.at(k, c);
            expected += s * value.at(k, column);
          }
          ASSERT_EQ(output[std::size_t(lane)][std::size_t(e)], expected)
              << "row " << at.row << ", column " << column;
        }
    }
  }
}

template <int keys> void expect_weights_pass_as_operand_a() {
  std::vector<int> shared(std::size_t(32 * keys), -1);
  for (int lane = 0; lane < 32; ++lane)
    for (int eighth = 0; eighth < 4; ++eighth)
      for (int chunk = 0; chunk < keys / 8; ++chunk)
        for (int half = 0; half < 2; ++half) {
          const Place2D at = sum_place(lane, eighth % 2 * 2 + half);  // of the block eighth / 2
          const int offset = sm80::WeightLane<keys>::of(lane).at(eighth, chunk);
          int& word = shared[std::size_t(offset / 2 + half)];
          EXPECT_EQ(word, -1) << "written twice";
          word = 1000 * (at.row + eighth / 2 * 16) + 8 * chunk + at.column;
        }
  for (int block = 0; block < 2; ++block)
    for (int step = 0; step < keys / 16; ++step) {
      const Registers a =
          ldmatrix<keys>(shared, lane_addresses<keys>(query_matrix_row, step, 16 * block), false);
      for (int lane = 0; lane < 32; ++lane)
        for (int r = 0; r < 4; ++r)
          for (int half = 0; half < 2; ++half) {
            const Place2D at = a_place(lane, r, half);
            EXPECT_EQ(a[std::size_t(lane)][std::size_t(r)][std::size_t(half)],
                      1000 * (at.row + 16 * block) + 16 * step + at.column);
          }
    }
  for (int chunk = 0; chunk < keys / 8; ++chunk) {
    std::set<int> banks;
    for (int lane = 0; lane < 32; ++lane)
      banks.insert(sm80::WeightLane<keys>::of(lane).at(0, chunk) / 4 % 32);
    EXPECT_EQ(int(banks.size()), 32) << keys << " keys, chunk " << chunk;
  }
}

TEST(Sm80Weights, PassThroughSharedMemoryAsOperandA) {
  expect_weights_pass_as_operand_a<32>();
  expect_weights_pass_as_operand_a<64>();
  expect_weights_pass_as_operand_a<128>();
}

TEST(Fragment, ElementsBelowAreThoseOfTheSums) {
  for (int keys = -3; keys < 140; ++keys)
    for (int place = 0; place < 4; ++place) {
      unsigned expected = 0;
      for (int i = 0; i < 32; ++i)  // from the lane's first key, 2 * place of the tile
        if (8 * (i / 2) + sum_place(place, i % 2).column - 2 * place < keys) expected |= 1u << i;
      EXPECT_EQ(elements_below(keys), expected) << keys;
    }
  EXPECT_EQ(elements_below(2147483647), ~0u);
}

// ---- rows and tiles
// ----------------------------------------------------------------------------------

struct RangeCase {
  int low, high, query_length, key_length, group, query_stride, key_stride;
};

TEST(Sm80Rows, SpansSayWhatEveryElementSays) {
  constexpr int open_low = RangeMask::unbounded_low, open_high = RangeMask::unbounded_high;
  const RangeCase cases[] = {{open_low, open_high, 70, 100, 1, 1, 1},
                             {open_low, 0, 70, 100, 1, 1, 1},
                             {open_low, 0, 100, 70, 2, 1, 1},
                             {-20, 0, 50, 130, 3, 1, 1},
                             {-5, 9, 40, 90, 2, 1, 1},
                             {open_low, 0, 30, 60, 2, 2, 1},
                             {-30, 3, 30, 60, 1, 1, 2},
                             {4, open_high, 33, 64, 4, 1, 1}};
  for (const RangeCase& c : cases) {
    ForwardParams params{};
    params.group = params.pack = c.group, params.query_stride = c.query_stride,
    params.key_stride = c.key_stride;
    params.mask.range = {c.low, c.high};
    SequenceInfo sequence{};
    sequence.query_length = c.query_length, sequence.key_length = c.key_length;
    sequence.offset = c.key_length - c.query_length;
    const int packed = c.group * c.query_length;
    for (int first = 0; first < packed; first += 32) {
      ForwardWork work{};
      work.first_row = first, work.rows = std::min(32, packed - first), work.kv_head = 3;
      work.last_key = c.key_length;
      KeySpan span;
      for (int r = 0; r < 32; ++r) span.add(sm80::row_of(params, sequence, work, r));
      for (int tile = 0; tile < c.key_length; tile += 16) {
        int seen = 0, asked = 0;
        for (int r = 0; r < work.rows; ++r)
          for (int key = tile; key < tile + 16; ++key, ++asked) {
            const int query = (first + r) % c.query_length;
            const long long d = 0LL + c.key_stride * key - c.query_stride * query - sequence.offset;
            const bool keep = key < c.key_length && d >= c.low && d <= c.high;
            const Row row = sm80::row_of(params, sequence, work, r);
            EXPECT_EQ(keep, row.begin <= key && key < row.end)
                << "query " << query << ", key " << key;
            EXPECT_EQ(row.query, query);
            EXPECT_EQ(row.head, 3 * c.group + (first + r) / c.query_length);
            seen += keep;
          }
        const score::Truth answer = span.answer(tile, tile + 16);
        // `none` and `all` must be right; `some` may be vague where rows of two heads share a tile.
        if (answer.no()) {
          EXPECT_EQ(seen, 0) << "keys from " << tile << ", rows from " << first;
        }
        if (answer.yes()) {
          EXPECT_EQ(seen, asked) << "keys from " << tile << ", rows from " << first;
        }
        if (c.group == 1 && seen == asked) {
          EXPECT_TRUE(answer.yes()) << "a mask for nothing: " << tile;
        }
      }
    }
  }
}

TEST(Sm80Rows, RowsThatFillTheTileSayNothing) {
  KeySpan span;
  span.add({0, sm80::no_key, -1, 0});
  EXPECT_TRUE(span.answer(0, 64).no());
  span.add({10, 200, 5, 0});
  EXPECT_TRUE(span.answer(64, 128).yes());
  EXPECT_TRUE(span.answer(0, 64).maybe());
  EXPECT_TRUE(span.answer(200, 264).no());
}

TEST(Sm80Rows, SpansOfTwoSetsJoin) {
  KeySpan span, other, all;
  for (const Row& row : {Row{10, 200, 5, 0}, Row{20, 210, 6, 0}}) span.add(row), all.add(row);
  for (const Row& row : {Row{40, 300, 7, 0}, Row{0, sm80::no_key, -1, 0}})
    other.add(row), all.add(row);
  span.join(other);
  for (int first = 0; first < 320; first += 8) {
    EXPECT_EQ(span.answer(first, first + 32).no(), all.answer(first, first + 32).no());
    EXPECT_EQ(span.answer(first, first + 32).yes(), all.answer(first, first + 32).yes());
  }
}

TEST(Sm80Rows, ABrokenSequenceIsNotRead) {
  ForwardParams params{};
  params.group = params.pack = 1, params.query_stride = params.key_stride = 1;
  SequenceInfo sequence{};
  sequence.query_length = sequence.key_length = 8, sequence.broken = 1;
  ForwardWork work{};
  work.rows = work.last_key = 8;
  KeySpan span;
  for (int r = 0; r < 8; ++r) span.add(sm80::row_of(params, sequence, work, r));
  EXPECT_TRUE(span.answer(0, 64).no());
}

TEST(Sm80Addresses, PagesPast2To31ElementsKeepTheirOffset) {
  ForwardParams params{};
  const int ids[] = {5, 70000, -1};
  params.page_ids = ids, params.page_id_stride = 1, params.pages = 70001, params.page_size = 64;
  params.key.strides = {64LL * 8 * 128, 8 * 128, 128};
  SequenceInfo sequence{};
  sequence.key_length = 192;
  const RowPlace place = key_place(params, sequence, 0, 64 + 63);
  EXPECT_EQ(place.outer, 70000);
  EXPECT_EQ(place.offset(params.key.strides, 7), 70000LL * 65536 + 63 * 1024 + 7 * 128);
  EXPECT_GT(place.offset(params.key.strides, 0), 1LL << 32);
  EXPECT_EQ(key_place(params, sequence, 0, 128).outer, -1) << "an id outside the pool is not read";
}

// ---- configurations
// ----------------------------------------------------------------------------------

constexpr int smallest_block = 99 * 1024;  // of 8.6 and 8.9

TEST(Sm80Registry, EveryDimensionHasEntriesThatFitEveryCard) {
  std::map<std::pair<int, int>, int> entries;
  for (int i = 0; i < sm80::registry_size; ++i) {
    const sm80::ForwardConfig c = sm80::registry(i);
    EXPECT_TRUE(c.valid()) << "entry " << i;
    EXPECT_LE(c.shared_bytes(), 163 * 1024) << "entry " << i << ": a block of 8.0 has 163 KB";
    if (c.shared_bytes() <= smallest_block) ++entries[{c.head_dim, c.value_dim}];
  }
  for (const auto& [dims, count] : entries)
    EXPECT_EQ(count, 4) << dims.first << ", " << dims.second << ": two types, two formulas";
  for (int d : {32, 64, 96, 128, 192, 256}) EXPECT_EQ(entries.count({d, d}), 1u) << d;
  EXPECT_EQ(entries.count({192, 128}), 1u);
}

TEST(Sm80Registry, TilesStandSmallestFirst) {
  for (const auto formula : {sm80::Formula::plain, sm80::Formula::changed}) {
    std::vector<sm80::ForwardConfig> tiles;
    for (int i = 0; i < sm80::registry_size; ++i)
      if (sm80::registry(i).type == HalfType::f16 && sm80::registry(i).formula == formula)
        tiles.push_back(sm80::registry(i));
    ASSERT_GE(tiles.size(), 7u);
    for (std::size_t i = 1; i < tiles.size(); ++i) {
      const auto &a = tiles[i - 1], &b = tiles[i];
      const auto dims = [](const sm80::ForwardConfig& c) {
        return std::pair(c.head_dim, c.value_dim);
      };
      EXPECT_LE(dims(a), dims(b));
      // Of one shape, the later fits where the first does not.
      if (dims(a) == dims(b)) {
        EXPECT_LT(b.shared_bytes(), a.shared_bytes());
      }
    }
  }
}

}  // namespace
}  // namespace tilefold::cuda
