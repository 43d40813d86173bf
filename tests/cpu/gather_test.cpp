// Laws of conversion and gathering: each element type in each layout gives the numbers that scalar
// conversion gives, and nothing outside the rows is read.
#include "cpu/gather.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/convert.hpp"
#include "cpu/highway_kernel.hpp"

namespace tilefold::cpu {
namespace {

template <class T> float widened(std::uint32_t code) {
  T x;
  x.bits = decltype(x.bits)(code);
  return to_float(x);
}
float scalar(DType type, std::uint32_t code) {
  switch (type) {
    case DType::f16: return widened<float16>(code);
    case DType::bf16: return widened<bfloat16>(code);
    case DType::e4m3: return widened<float8_e4m3>(code);
    default: return widened<float8_e5m2>(code);
  }
}
bool same_number(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}

class EveryTarget : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { bind_highway_target(GetParam()); }
  void TearDown() override { bind_highway_target(0); }
};
using Convert = EveryTarget;
using Gather = EveryTarget;

TEST_P(Convert, EveryCodeWidensAsTheScalarTypesDo) {
  for (const DType type : {DType::f16, DType::bf16, DType::e4m3, DType::e5m2}) {
    const std::uint32_t codes = 1u << bits_of(type);
    std::vector<std::uint16_t> wide(codes);
    std::vector<std::uint8_t> narrow(codes);
    for (std::uint32_t c = 0; c < codes; ++c)
      wide[c] = std::uint16_t(c), narrow[c] = std::uint8_t(c);
    const void* from = bits_of(type) == 16 ? static_cast<const void*>(wide.data()) : narrow.data();
    std::vector<float> to(codes);
    convert_row(type, from, DType::f32, to.data(), codes, 1.0f);
    for (std::uint32_t c = 0; c < codes; ++c)
      ASSERT_TRUE(same_number(to[c], scalar(type, c)))
          << name(type) << " code " << c << " gave " << to[c] << ", not " << scalar(type, c);
  }
}

TEST_P(Convert, RowsOfAnyLengthAndTheFactor) {
  for (int count = 0; count <= 70; ++count) {
    std::vector<std::uint8_t> from(static_cast<std::size_t>(count));  // exactly: ASan sees past it
    for (int i = 0; i < count; ++i) from[std::size_t(i)] = std::uint8_t(i * 3);
    std::vector<float> to(std::size_t(count) + 1, -7.0f);
    convert_row(DType::e4m3, from.data(), DType::f32, to.data(), count, 0.3f);
    for (int i = 0; i < count; ++i)
      ASSERT_TRUE(same_number(to[std::size_t(i)], scalar(DType::e4m3, from[std::size_t(i)]) * 0.3f))
          << "element " << i << " of " << count;
    ASSERT_EQ(to[std::size_t(count)], -7.0f) << "wrote past " << count;
  }
}

TEST_P(Convert, StoresRoundToNearestEven) {
  std::vector<float> from = {0.0f,     -0.0f, 1.0f,    65504.0f, 65519.0f,
                             65520.0f, 3e38f, 3.4e38f, INFINITY, -INFINITY,
                             NAN,      1e-7f, 6e-8f,   2.98e-8f, 1e-40f};
  for (std::uint32_t i = 0; i < 4000; ++i) {  // ties and their neighbours, all exponents
    const std::uint32_t bits =
        i * 1073741u + (i % 3 == 0 ? 0x8000u - (0x8000u & (i * 1073741u)) : 0);
    float x;
    std::memcpy(&x, &bits, sizeof x);
    from.push_back(x);
  }
  std::vector<std::uint16_t> to(from.size());
  const auto same = [](std::uint16_t got, std::uint16_t want, float x) {
    return got == want || (std::isnan(x) && (got & 0x7fff) > 0x7c00);
  };
  store_row(from.data(), DType::bf16, to.data(), std::int64_t(from.size()));
  for (std::size_t i = 0; i < from.size(); ++i)
    ASSERT_TRUE(same(to[i], round_to<bfloat16>(from[i]).bits, from[i]))
        << from[i] << " gave bf16 bits " << to[i];
  store_row(from.data(), DType::f16, to.data(), std::int64_t(from.size()));
  for (std::size_t i = 0; i < from.size(); ++i)
    ASSERT_TRUE(same(to[i], round_to<float16>(from[i]).bits, from[i]))
        << from[i] << " gave f16 bits " << to[i];
}

constexpr int kv_heads = 2, columns = 19, keys = 23, page_size = 4;

core::Geometry geometry_of(core::KeyLayout layout) {
  core::Geometry g;
  g.key_layout = layout;
  g.batch = 1, g.query_heads = 4, g.kv_heads = kv_heads, g.head_dim = columns,
  g.value_dim = columns;
  g.page_size = page_size, g.pages = 8;
  core::Sequence s;
  s.key_length = keys;
  s.key_begin = layout == core::KeyLayout::ragged ? 3 : 0;
  g.sequences = {s};
  return g;
}

struct Layout {
  const char* name;
  core::KeyLayout key_layout;
  PageLayout page_layout;
  Extents shape;
};
const Layout layouts[] = {
    {"dense", core::KeyLayout::dense, PageLayout::nhd, {1, 30, kv_heads, columns}},
    {"ragged", core::KeyLayout::ragged, PageLayout::nhd, {30, kv_heads, columns}},
    {"paged nhd", core::KeyLayout::paged, PageLayout::nhd, {8, page_size, kv_heads, columns}},
    {"paged hnd", core::KeyLayout::paged, PageLayout::hnd, {8, kv_heads, page_size, columns}},
};
// Page 3 of the sequence is no page: its keys, 12 to 15, read as zeros.
constexpr std::int32_t table[] = {5, 0, 7, -1, 2, 6};

/// The stored element of (key, head, column), written out anew for each layout.
std::int64_t element_index(const Layout& layout, int key, int head, int column) {
  if (layout.key_layout == core::KeyLayout::dense)
    return (key * kv_heads + head) * columns + column;
  if (layout.key_layout == core::KeyLayout::ragged)
    return ((key + 3) * kv_heads + head) * columns + column;
  const std::int64_t page = table[key / page_size], slot = key % page_size;
  if (layout.page_layout == PageLayout::nhd)
    return ((page * page_size + slot) * kv_heads + head) * columns + column;
  return ((page * kv_heads + head) * page_size + slot) * columns + column;
}

TEST_P(Gather, EveryTypeInEveryLayout) {
  for (const Layout& layout : layouts)
    for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::e5m2}) {
      SCOPED_TRACE(testing::Message() << layout.name << " of " << name(type));
      const core::Geometry g = geometry_of(layout.key_layout);
      std::vector<unsigned char> bytes(std::size_t(8 * page_size * kv_heads * columns) * 4);
      for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = (unsigned char)(i * 37 % 61 + i % 2);
      Tensors tensors;
      tensors.key = TensorView(bytes.data(), type, layout.shape);
      tensors.pages.table = TensorView(table, {1, 6});
      const std::vector<float> factors = {0.5f, 1.5f};
      if (is_fp8(type))
        tensors.key_descale = {TensorView(factors.data(), {kv_heads}), Granularity::head};
      const KeyRows rows(g, tensors, tensors.key, tensors.key_descale, layout.page_layout);
      for (const Reuse reuse : {Reuse::once, Reuse::many})
        for (const auto& [first, last] : {std::pair(0, 23), std::pair(5, 7), std::pair(11, 22)}) {
          std::vector<float> scratch(std::size_t((last - first) * columns));
          const TileRows tile = rows.read({0, 1, first, last, reuse}, DType::f32, scratch.data());
          ASSERT_EQ(tile.rows, last - first);
          ASSERT_EQ(tile.columns, columns);
          for (int key = first; key < last; ++key)
            for (int c = 0; c < columns; ++c) {
              float want = 0;
              if (layout.key_layout != core::KeyLayout::paged || table[key / page_size] >= 0) {
                const std::int64_t at = element_index(layout, key, 1, c);
                std::uint32_t code = 0;
                std::memcpy(&code, bytes.data() + at * bytes_of(type), std::size_t(bytes_of(type)));
                if (type == DType::f32)
                  std::memcpy(&want, &code, sizeof want);
                else
                  want = scalar(type, code) * (is_fp8(type) ? factors[1] : 1.0f);
              }
              const float got =
                  static_cast<const float*>(tile.data)[(key - first) * tile.row_stride + c];
              ASSERT_TRUE(same_number(got, want))
                  << "key " << key << " column " << c << ": " << got << ", not " << want;
            }
        }
    }
}

TEST(GatherInPlace, RowsOfTheKernelsTypeAreNotCopied) {
  const core::Geometry g = geometry_of(core::KeyLayout::dense);
  std::vector<float> memory(30 * kv_heads * columns, 1.0f), scratch(23 * columns);
  Tensors tensors;
  tensors.key = TensorView(memory.data(), {1, 30, kv_heads, columns});
  const KeyRows rows(g, tensors, tensors.key, tensors.key_descale, PageLayout::nhd);
  const TileRows tile = rows.read({0, 1, 2, 9, Reuse::once}, DType::f32, scratch.data());
  EXPECT_EQ(tile.data, memory.data() + (2 * kv_heads + 1) * columns);
  EXPECT_EQ(tile.row_stride, kv_heads * columns);
}

TEST_P(Gather, QueryRowsStandHeadAfterHead) {
  core::Geometry g = geometry_of(core::KeyLayout::dense);
  g.sequences[0].query_length = 3;
  std::vector<float> memory(4 * 4 * columns), scratch(6 * columns);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = float(i);
  Tensors tensors;
  tensors.query = TensorView(memory.data(), {1, 4, 4, columns});
  const QueryRows queries(g, tensors);
  // KV head 1 owns query heads 2 and 3, of 3 rows each.
  const TileRows tile = queries.read({0, 1, 1, 6}, DType::f32, scratch.data());
  for (int r = 0; r < 5; ++r) {
    const int row = (1 + r) % 3, head = 2 + (1 + r) / 3;
    EXPECT_EQ(static_cast<const float*>(tile.data)[r * tile.row_stride],
              float((row * 4 + head) * columns))
        << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Convert, testing::Range(0, highway_target_count()));
INSTANTIATE_TEST_SUITE_P(Targets, Gather, testing::Range(0, highway_target_count()));

}  // namespace
}  // namespace tilefold::cpu
