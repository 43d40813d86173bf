// Law: the index arithmetic of kernels, read on the host, is that of the definitions it replaces.
#include "cuda/kernels/forward_params.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cuda/launch/forward_plan.hpp"
#include "support/random.hpp"

namespace tilefold::cuda {
namespace {

struct Drawn {
  ForwardParams params{};
  SequenceInfo sequence{};
};

Drawn draw(testing::Random& random) {
  Drawn d;
  d.params.group = d.params.pack = random.between(1, 3);
  d.params.query_stride = random.one_of({1, 1, 2, -1, -3});
  d.params.key_stride = random.one_of({1, 1, 2, 3, -1, -2});
  d.sequence.query_length = random.between(1, 30);
  d.sequence.key_length = random.between(0, 40);
  d.sequence.query_start = random.between(-20, 20);
  d.sequence.key_start = random.between(-20, 20);
  d.sequence.offset = random.between(-30, 30);
  if (random.chance(0.8)) d.params.mask.range.high = random.between(-5, 20);
  if (random.chance(0.7)) d.params.mask.range.low = -random.between(-5, 20);
  return d;
}

bool sees(const Drawn& d, int query, int key) {
  return d.params.mask.range.keep(query_position(d.params, d.sequence, query),
                                  key_position(d.params, d.sequence, key),
                                  place_of(d.params, d.sequence, 0, 0));
}

TEST(ForwardParams, RangeKeysAreExactlyTheKeysThatTheRangeMaskKeeps) {
  testing::Random random(11);
  for (int trial = 0; trial < 2000; ++trial) {
    const Drawn d = draw(random);
    for (int query = 0; query < d.sequence.query_length; ++query) {
      const KeyRange range = range_keys(d.params, d.sequence, query, 0, d.sequence.key_length);
      for (int key = 0; key < d.sequence.key_length; ++key)
        ASSERT_EQ(key >= range.begin && key < range.end, sees(d, query, key))
            << "trial " << trial << ", query " << query << ", key " << key;
    }
  }
}

TEST(ForwardParams, KeysOfAWorkItemBoundThoseOfItsRows) {
  testing::Random random(12);
  for (int trial = 0; trial < 2000; ++trial) {
    const Drawn d = draw(random);
    const int all = d.params.group * d.sequence.query_length;
    ForwardWork work{};
    work.first_row = random.between(0, all - 1);
    work.rows = random.between(1, std::min(16, all - int(work.first_row)));
    work.last_key = d.sequence.key_length;
    const KeyRange bound = keys_of(d.params, d.sequence, work);
    for (int r = 0; r < work.rows; ++r) {
      const int query = query_of(d.params, d.sequence, 0, work.first_row + r).query;
      for (int key = 0; key < d.sequence.key_length; ++key)
        if (sees(d, query, key)) {
          ASSERT_LE(bound.begin, key) << "trial " << trial;
          ASSERT_GT(bound.end, key) << "trial " << trial;
        }
    }
  }
}

core::Geometry uniform_geometry(int batch, int queries, int keys) {
  core::Geometry g;
  g.batch = batch;
  g.query_heads = 6;
  g.kv_heads = 2;
  g.head_dim = g.value_dim = 64;
  core::Sequence s;
  s.query_length = g.max_query_length = queries;
  s.key_length = g.max_key_length = keys;
  g.sequences.assign(std::size_t(batch), s);
  return g;
}

TEST(ForwardParams, DerivedWorkIsTheScheduleOfEqualSequences) {
  for (const int split : {0, 64, 128}) {
    const core::Geometry g = uniform_geometry(3, 13, 300);
    planner::Schedule schedule;
    schedule.tile = {16, 32, 16};
    schedule.split_keys = split;
    schedule.first_item = {0};
    for (const core::Sequence& s : g.sequences)
      schedule.first_item.push_back(schedule.first_item.back() +
                                    g.kv_heads * schedule.blocks(g, s) * schedule.splits(s));
    const std::vector<SequenceInfo> infos = sequence_infos(g, {});
    ForwardParams params{};
    params.kv_heads = g.kv_heads;
    params.group = params.pack = g.group();
    params.lists = g.kv_heads;
    params.sequences = infos.data();
    params.shape = work_shape(g, schedule);
    ASSERT_EQ(params.shape.items, schedule.items());
    for (std::int64_t block = 0; block < schedule.items(); ++block) {
      const ForwardWork work = work_of(params, block);
      const planner::WorkItem item = schedule.item(g, schedule.items() - 1 - block);
      EXPECT_EQ(work.sequence, item.sequence);
      EXPECT_EQ(work.kv_head, item.kv_head);
      EXPECT_EQ(work.first_row, item.first_row);
      EXPECT_EQ(work.first_row + work.rows, item.last_row);
      EXPECT_EQ(work.first_key, item.first_key);
      EXPECT_EQ(work.last_key, item.last_key);
      EXPECT_EQ(work.split, item.split);
      EXPECT_EQ(work.splits, item.splits);
      EXPECT_EQ(work.part, item.part);
    }
  }
}

/// A head of `queries` rows and `keys` keys, all one work.
struct WholeHead {
  ForwardParams params{};
  SequenceInfo sequence{};
  ForwardWork work{};

  WholeHead(int queries, int keys, Reproducibility mode = Reproducibility::same_plan,
            const core::Geometry& g = wide_head()) {
    params.value_dim = g.value_dim;
    params.query_stride = params.key_stride = 1;
    params.exact_below = exact_weights(g, mode, true);
    sequence.query_length = queries, sequence.key_length = keys;
    sequence.offset = keys - queries;
    work.rows = queries, work.last_key = keys;
  }
  static core::Geometry wide_head() {
    core::Geometry g;
    g.value_dim = 128, g.scale = 1, g.out_dtype = DType::bf16;
    return g;
  }
  bool splits() const { return splits_weights(params, sequence, work); }
};

TEST(ForwardParams, HeadsOfFewOutputsSplitTheirWeightsAndBatchInvariantOnesAlwaysDo) {
  for (const auto& [queries, splits] :
       {std::pair{1, true}, {15, true}, {16, false}, {4096, false}}) {
    EXPECT_EQ(WholeHead(queries, 4096).splits(), splits) << queries;
    EXPECT_TRUE(WholeHead(queries, 4096, Reproducibility::batch_invariant).splits()) << queries;
  }
  core::Geometry flat = WholeHead::wide_head();
  flat.scale = 0;
  EXPECT_TRUE(WholeHead(4096, 4096, Reproducibility::same_plan, flat).splits());
}

TEST(ForwardParams, RowsThatSeeFewKeysSplitTheirWeights) {
  EXPECT_TRUE(WholeHead(128, 15).splits());
  EXPECT_FALSE(WholeHead(128, 16).splits());
  WholeHead causal(256, 256);
  causal.params.mask.range.high = 0;
  EXPECT_TRUE(causal.splits()) << "row 0 sees one key";
  causal.work.rows = 64;
  causal.work.first_row = 15;
  EXPECT_FALSE(causal.splits()) << "row 15 sees 16 keys";
  causal.work.first_row = 14;
  EXPECT_TRUE(causal.splits());
  WholeHead window(256, 256);
  window.params.mask.range = {-14, 0};
  window.work.rows = 64;
  window.work.first_row = 100;
  EXPECT_TRUE(window.splits()) << "every row sees 15 keys";
  window.params.mask.range = {-15, 0};
  EXPECT_FALSE(window.splits());
  // Splits of one row agree, however the keys are cut.
  WholeHead part(256, 4096);
  part.work.first_key = 4090;
  EXPECT_FALSE(part.splits());
  // 1024 outputs of rows with few keys are enough where heads are narrow.
  core::Geometry narrow = WholeHead::wide_head();
  narrow.value_dim = 32;
  EXPECT_TRUE(WholeHead(128, 31, Reproducibility::same_plan, narrow).splits());
  EXPECT_FALSE(WholeHead(128, 32, Reproducibility::same_plan, narrow).splits());
}

TEST(ForwardParams, UnderMaskProgramsHeadsNeedMoreOutputs) {
  core::Geometry g = WholeHead::wide_head();
  EXPECT_EQ(exact_weights(g, Reproducibility::same_plan, false).outputs, 8192);
  g.out_dtype = DType::f32;
  EXPECT_EQ(exact_weights(g, Reproducibility::same_plan, false).outputs, 32768);
}

TEST(ForwardParams, RowsOfAnItemAreMergedByABlockAFourUnlessItemsFillACard) {
  WorkShape shape{};
  shape.tile_rows = 128;
  for (const auto& [items, blocks] : {std::pair{0LL, 1},
                                      {1LL, 32},
                                      {8LL, 32},
                                      {256LL, 32},
                                      {257LL, 31},
                                      {8191LL, 1},
                                      {8192LL, 1},
                                      {1LL << 40, 1}}) {
    shape.items = items;
    EXPECT_EQ(shape.merge_blocks(), blocks) << items;
  }
  shape.items = 8;
  shape.tile_rows = 2;
  EXPECT_EQ(shape.merge_blocks(), 1);
}

TEST(ForwardParams, InterleavedRunsAreABijectionLongestFirst) {
  for (const int tiles : {1, 3, 8})
    for (const int runs : {1, 2, 5, 12})
      for (const int together : {1, 2, 5, 12}) {
        WorkShape shape{2LL * tiles * runs, 16, tiles, 2, 64, tiles, together};
        std::vector<int> taken(std::size_t(tiles * runs), 0);
        for (int number = 0; number < tiles * runs; ++number) {
          const unsigned tile = interleaved(shape, unsigned(number));
          ASSERT_LT(tile, unsigned(tiles * runs));
          ++taken[tile];
          const int group = number / (tiles * together);
          EXPECT_EQ(int(tile) / tiles / together, group) << "a run outside its group";
          if (number % (tiles * together) != 0) {
            // Blocks count down, so within a group the row tiles must count up.
            EXPECT_GE(tile % unsigned(tiles),
                      interleaved(shape, unsigned(number - 1)) % unsigned(tiles));
          }
        }
        EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), tiles * runs);
      }
}

TEST(ForwardParams, CausalRowsOfEqualSequencesAreInterleaved) {
  constexpr int low = RangeMask::unbounded_low, high = RangeMask::unbounded_high;
  core::Geometry g = uniform_geometry(3, 4096, 16384);
  g.query_heads = g.kv_heads = 2;
  g.key_dtype = DType::bf16;
  const auto shape_of = [&](RangeMask range) {
    WorkShape shape{6 * 32, 128, 32, 1, 0};
    interleave_runs(g, g.group(), range, shape);
    return shape;
  };
  EXPECT_EQ(shape_of({low, high}).runs_together, 1);
  EXPECT_EQ(shape_of({-64, 0}).runs_together, 1) << "all rows of a window are of one length";
  EXPECT_EQ(shape_of({low, 0}).runs_together, 6) << "4 MB a head: all of them fit";
  EXPECT_EQ(shape_of({low, 0}).run_tiles, 32);
  g.head_dim = g.value_dim = 256;
  EXPECT_EQ(shape_of({low, 0}).runs_together, 2) << "16 MB a head";
  g.query_heads = 8;
  EXPECT_EQ(shape_of({low, 0}).runs_together, 8) << "4 query heads share each pair of K and V";
  EXPECT_EQ(shape_of({low, 0}).run_tiles, 8);
}

}  // namespace
}  // namespace tilefold::cuda
