// The order of work of the Hopper forward, and the ranges its scout computes: every item once,
// every range that of the element-wise mask.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "cuda/kernels/sm90/forward/params.hpp"
#include "cuda/launch/work_order.hpp"
#include "support/random.hpp"

namespace tilefold::cuda {
namespace {

using sm90::Divisor;
using sm90::WorkOrder;

TEST(Sm90Divisor, DividesAsTheOperatorDoes) {
  std::vector<int> divisors = {65537, 1000003, 1 << 20, (1 << 30) - 1, 1 << 30, 2147483647};
  for (int d = 1; d < 2000; ++d) divisors.push_back(d);
  for (const int d : divisors) {
    const Divisor by = Divisor::of(d);
    for (const std::int64_t value :
         {std::int64_t{0}, std::int64_t{d} - 1, std::int64_t{d}, std::int64_t{d} * 5 - 1,
          std::int64_t{d} * 5, std::int64_t{123456789}, std::int64_t{2147483647}}) {
      if (value <= 2147483647) {
        EXPECT_EQ(by(int(value)), value / d) << value << " / " << d;
      }
    }
  }
}

TEST(Sm90WorkOrder, TakesEveryRowTileOnce) {
  for (int lists = 1; lists < 14; ++lists)
    for (int tiles = 1; tiles < 18; ++tiles)
      for (int section = 0; section < 16; ++section)
        for (const int tail : {0, 1, 2, 8}) {
          const WorkOrder order = section == 0 ? WorkOrder::plain(lists, tiles)
                                               : WorkOrder::sections(lists, tiles, section, tail);
          std::set<std::pair<int, int>> seen;
          for (int item = 0; item < order.items(); ++item) {
            const sm90::RowTile at = order.at(item);
            ASSERT_TRUE(at.list >= 0 && at.list < lists && at.tile >= 0 && at.tile < tiles);
            seen.insert({at.list, at.tile});
          }
          ASSERT_EQ(int(seen.size()), lists * tiles)
              << lists << " lists, " << tiles << " tiles, sections of " << section << ", 1/"
              << tail;
        }
}

TEST(Sm90WorkOrder, LongestFirstInASectionShortestLast) {
  const WorkOrder order = WorkOrder::sections(6, 4, 4, 4);
  std::vector<std::pair<int, int>> got;
  for (int item = 0; item < order.items(); ++item)
    got.push_back({order.at(item).tile, order.at(item).list});
  const std::vector<std::pair<int, int>> want = {{3, 0}, {3, 1}, {3, 2}, {3, 3}, {2, 0}, {2, 1},
                                                 {2, 2}, {2, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3},
                                                 {3, 4}, {3, 5}, {2, 4}, {2, 5}, {1, 4}, {1, 5},
                                                 {0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}};
  EXPECT_EQ(got, want);
}

TEST(ChooseSplit, FillsOneWave) {
  EXPECT_EQ(choose_split({8, 131072, 128, 132}), 64 * 128);  // the example of the declaration
  EXPECT_EQ(choose_split({132, 131072, 128, 132}), 0);       // full already
  EXPECT_EQ(choose_split({100, 131072, 128, 132}) == 0 ||    // two waves of halves gain nothing
                choose_split({100, 131072, 128, 132}) >= 128,
            true);
  EXPECT_EQ(choose_split({1, 400, 128, 132}), 0);  // too short to pay
  for (int items = 1; items < 200; items += 7)
    for (int keys : {513, 4096, 65537}) {
      const int split = choose_split({items, keys, 80, 132});
      EXPECT_EQ(split % 80, 0);
    }
}

struct Drawn {
  ForwardParams params{};
  SequenceInfo sequence{};
};
Drawn draw(testing::Random& random) {
  Drawn d;
  ForwardParams& p = d.params;
  p.group = random.between(1, 3);
  p.pack = random.between(0, 1) ? p.group : 1;
  p.query_stride = random.between(-3, 3), p.key_stride = random.between(-3, 3);
  SequenceInfo& s = d.sequence;
  s.query_length = random.between(1, 40), s.key_length = random.between(0, 60);
  s.query_start = random.between(-20, 20), s.key_start = random.between(-20, 20);
  s.offset = random.between(-30, 30);
  if (random.between(0, 3)) p.mask.range.low = random.between(-50, 10);
  if (random.between(0, 3)) p.mask.range.high = random.between(-10, 50);
  return d;
}
bool sees(const Drawn& d, int query, int key) {
  const int q = query_position(d.params, d.sequence, query);
  const int k = key_position(d.params, d.sequence, key);
  return d.params.mask.range.keep(q, k, place_of(d.params, d.sequence, 0, 0));
}

TEST(Sm90Ranges, AreThoseOfTheMask) {
  testing::Random random(77);
  for (int trial = 0; trial < 3000; ++trial) {
    const Drawn d = draw(random);
    if (d.params.key_stride == 0) continue;
    const SequenceInfo& s = d.sequence;
    ForwardWork work{};
    const int all = d.params.pack * s.query_length;
    work.first_row = random.between(0, all - 1);
    work.rows = random.between(1, all - int(work.first_row));
    work.last_key = s.key_length;
    const KeyRange whole = sm90::keys_of_all(d.params, s, work);
    const KeyRange any = sm90::keys_of_sequence(d.params, s);
    for (int key = 0; key < s.key_length; ++key) {
      bool somebody = false;
      for (int q = 0; q < s.query_length; ++q) somebody |= sees(d, q, key);
      if (somebody) {
        ASSERT_TRUE(any.begin <= key && key < any.end) << "trial " << trial << " key " << key;
      }
      if (key < whole.begin || key >= whole.end) continue;
      for (int r = 0; r < work.rows; ++r) {
        const int query = query_of(d.params, s, 0, work.first_row + r).query;
        ASSERT_TRUE(sees(d, query, key)) << "trial " << trial << " key " << key;
      }
    }
  }
}

TEST(Sm90Items, PartsAreThoseOfTheMerge) {
  std::vector<SequenceInfo> sequences(3);
  for (SequenceInfo& s : sequences) s.query_length = 300, s.key_length = 900;
  for (const int splits : {1, 3}) {
    sm90::KernelParams params{};
    ForwardParams& p = params.problem;
    p.sequences = sequences.data();
    p.pack = p.group = 1, p.lists = 5;
    p.shape = {3LL * 5 * 3 * splits, 128, 3, splits, splits == 1 ? 0 : 300};
    params.items = int(p.shape.items);
    params.order = splits == 1 ? WorkOrder::sections(15, 3, 4, 2) : WorkOrder::plain(15, 3);
    std::set<long long> parts;
    for (int item = 0; item < params.items; ++item) {
      const ForwardWork work = sm90::work_of_item(params, item);
      EXPECT_EQ(work.splits, splits);
      const ForwardWork merged = work_of(p, p.shape.items - 1 - work.part);
      EXPECT_EQ(std::tie(work.first_row, work.part, work.rows, work.sequence, work.kv_head,
                         work.first_key, work.last_key, work.split),
                std::tie(merged.first_row, merged.part, merged.rows, merged.sequence,
                         merged.kv_head, merged.first_key, merged.last_key, merged.split));
      parts.insert(work.part);
    }
    EXPECT_EQ(int(parts.size()), params.items);
  }
}

TEST(LongestFirst, KeepsEveryItemAndEndsWithTheShortest) {
  core::Geometry g;
  g.batch = 40, g.query_heads = 8, g.kv_heads = 4, g.head_dim = g.value_dim = 128;
  testing::Random random(5);
  for (int b = 0; b < g.batch; ++b) {
    core::Sequence s;
    s.query_length = s.key_length = b == 7 ? 100000 : random.between(0, 900);
    g.sequences.push_back(s);
  }
  ForwardParams p{};
  p.group = 2, p.pack = 1, p.lists = 8, p.query_stride = p.key_stride = 1;
  p.mask.range.high = 0;
  std::vector<ForwardWork> work;
  for (int b = 0; b < g.batch; ++b)
    for (int list = 0; list < 8; ++list)
      for (int first = 0; first < g.sequences[std::size_t(b)].query_length; first += 128) {
        ForwardWork item{};
        item.sequence = b, item.kv_head = list, item.first_row = first;
        item.rows = std::min(128, g.sequences[std::size_t(b)].query_length - first);
        item.last_key = g.sequences[std::size_t(b)].key_length;
        item.part = (long long)work.size();
        work.push_back(item);
      }
  const std::size_t count = work.size();
  longest_first(work, g, p);
  std::set<long long> parts;
  for (const ForwardWork& item : work) parts.insert(item.part);
  EXPECT_EQ(parts.size(), count);
  EXPECT_EQ(work.front().sequence, 7);
  const auto keys = [&](const ForwardWork& w) { return w.first_row + w.rows; };
  for (std::size_t i = count - count / 16; i + 1 < count; ++i)
    EXPECT_GE(keys(work[i]), keys(work[i + 1])) << i;
}

}  // namespace
}  // namespace tilefold::cuda
