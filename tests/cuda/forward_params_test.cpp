// Law: the index arithmetic of kernels, read on the host, is that of the definitions it replaces.
#include "cuda/kernels/forward_params.cuh"

#include <gtest/gtest.h>

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

TEST(ForwardParams, HeadsOfFewOutputsSplitTheirWeightsAndBatchInvariantOnesAlwaysDo) {
  ForwardParams params{};
  params.value_dim = 128;
  SequenceInfo sequence{};
  for (const auto& [queries, splits] :
       {std::pair{0, true}, {1, true}, {15, true}, {16, false}, {4096, false}}) {
    sequence.query_length = queries;
    params.exact_weights_below = exact_weights_below(Reproducibility::same_plan);
    EXPECT_EQ(splits_weights(params, sequence), splits) << queries;
    params.exact_weights_below = exact_weights_below(Reproducibility::batch_invariant);
    EXPECT_TRUE(splits_weights(params, sequence)) << queries;
  }
}

}  // namespace
}  // namespace tilefold::cuda
