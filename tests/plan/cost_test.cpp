// Laws of the cost model: its counts are those of a walk over every tile, more keys never cost less
// where rows are not split, waves are whole, device memory is a floor.
#include "plan/cost.hpp"

#include <gtest/gtest.h>

#include "plan/choose.hpp"
#include "plan/count.hpp"
#include "tilefold/attention.hpp"

namespace tilefold::planner {
namespace {

constexpr KernelCost cost{.item_cycles = 5000, .tile_cycles = 2800, .cut_cycles = 200};

struct Shape {
  int batch = 1, queries = 1, keys = 1, query_heads = 8, kv_heads = 8, dim = 128;
};

core::Geometry geometry_of(const Shape& s) {
  core::Geometry g;
  g.batch = s.batch;
  g.query_heads = s.query_heads;
  g.kv_heads = s.kv_heads;
  g.head_dim = g.value_dim = s.dim;
  g.query_dtype = g.key_dtype = g.value_dtype = g.out_dtype = DType::bf16;
  core::Sequence one;
  one.query_length = s.queries;
  one.key_length = s.keys;
  one.offset = s.keys - s.queries;
  g.sequences.assign(std::size_t(s.batch), one);
  g.max_query_length = s.queries;
  g.max_key_length = s.keys;
  return g;
}

/// Rows not split, one head a list.
Schedule schedule_of(const core::Geometry& g, TileShape tile, int split_keys = 0) {
  Schedule schedule;
  schedule.tile = tile;
  schedule.split_keys = split_keys;
  schedule.pack = 1;
  schedule.first_item = {0};
  for (const core::Sequence& s : g.sequences)
    schedule.first_item.push_back(schedule.first_item.back() +
                                  schedule.lists(g) * schedule.blocks(g, s) * schedule.splits(s));
  return schedule;
}

Load load_of(const Shape& shape, TileShape tile, KeyBand band) {
  const core::Geometry g = geometry_of(shape);
  return load_of(g, schedule_of(g, tile), band, h200, h200.multiprocessors);
}

double seconds_of(const Shape& shape) {
  return predict(cost, load_of(shape, {128, 128, 128}, {}), h200).seconds();
}

constexpr KeyBand causal_band{-KeyBand::unbounded, 0};

TEST(CostCounts, AreThoseOfAWalkOverEveryTile) {
  const struct {
    Mask mask;
    KeyBand band;
  } masks[] = {{{}, {}},
               {causal(), causal_band},
               {causal() && window(300), {-300, 0}},
               {window(100, 50), {-100, 50}}};
  for (const TileShape tile : {TileShape{128, 128, 128}, TileShape{192, 128, 192},
                               TileShape{128, 80, 128}, TileShape{64, 64, 64}})
    for (const auto& [queries, keys] :
         {std::pair{1, 1}, {1, 4096}, {100, 1000}, {512, 512}, {1000, 700}, {700, 1000}, {8, 1}})
      for (const auto& m : masks) {
        const core::Geometry g = geometry_of({2, queries, keys});
        const Schedule schedule = schedule_of(g, tile);
        const Work walked = count_work(g, schedule, m.mask.node());
        const Load load = load_of(g, schedule, m.band, h200, h200.multiprocessors);
        EXPECT_EQ(load.items, schedule.items());
        const auto visited = double(walked.tiles.full + walked.tiles.partial);
        const bool every_row_tile_asked =
            (queries + tile.tile_queries - 1) / tile.tile_queries <= 8;
        EXPECT_NEAR(load.tiles, visited, every_row_tile_asked ? 1e-6 : 0.05 * visited)
            << queries << " x " << keys << " " << m.mask.text() << " " << tile.tile_queries << "x"
            << tile.tile_keys;
      }
}

TEST(CostCounts, OfLongSequencesAreWithinTwoPercent) {
  for (const Mask& mask : {causal(), causal() && window(4095)}) {
    const core::Geometry g = geometry_of({1, 32768, 32768, 1, 1});
    const Schedule schedule = schedule_of(g, {128, 80, 128});
    const Work walked = count_work(g, schedule, mask.node());
    const KeyBand band{mask.text() == causal().text() ? -KeyBand::unbounded : -4095, 0};
    const double visited = double(walked.tiles.full + walked.tiles.partial);
    EXPECT_NEAR(load_of(g, schedule, band, h200, 132).tiles, visited, 0.02 * visited);
  }
}

// But for tiles that the mask cuts, whose number follows how offset and tiles fall together.
TEST(CostModel, MoreKeysNeverCostLess) {
  KernelCost uncut = cost;
  uncut.cut_cycles = 0;
  for (int queries : {1, 7, 300, 2048})
    for (const KeyBand band : {KeyBand{}, causal_band}) {
      double before = 0;
      for (int keys = 1; keys < queries + 3000; keys += 37) {
        const Load load = load_of(Shape{3, queries, keys}, {128, 128, 128}, band);
        const double now = predict(uncut, load, h200).seconds();
        EXPECT_GE(now, before) << queries << " x " << keys;
        before = now;
      }
    }
}

TEST(CostCounts, OfManySequencesAreCloseToThoseOfAll) {
  core::Geometry g = geometry_of({1000, 1, 1});
  double all = 0;
  for (std::size_t i = 0; i < g.sequences.size(); ++i) {
    core::Sequence& s = g.sequences[i];
    s.query_length = s.key_length = 100 + int(i * 7919 % 1500);
    core::Geometry one = g;
    one.sequences = {s};
    all += load_of(one, schedule_of(one, {128, 128, 128}), causal_band, h200, 132).tiles;
  }
  const Load load = load_of(g, schedule_of(g, {128, 128, 128}), causal_band, h200, 132);
  EXPECT_NEAR(load.tiles, all, 0.15 * all);
}

TEST(CostModel, MoreRowsHeadsAndSequencesNeverCostLess) {
  double before = 0;
  for (int queries = 1; queries < 3000; queries += 41) {
    const double now = seconds_of({2, queries, 3000});
    EXPECT_GE(now, before);
    before = now;
  }
  EXPECT_LE(seconds_of({1, 512, 512}), seconds_of({40, 512, 512}));
  EXPECT_LE(seconds_of({1, 512, 512, 8, 8}), seconds_of({1, 512, 512, 64, 8}));
}

TEST(CostModel, OneItemMoreThanAWaveTakesTwoWaves) {
  const Shape wave{1, 128, 1024, 132, 132};
  const Prediction one = predict(cost, load_of(wave, {128, 128, 128}, {}), h200);
  const Prediction two =
      predict(cost, load_of({1, 128, 1024, 133, 133}, {128, 128, 128}, {}), h200);
  EXPECT_EQ(one.waves, 1);
  EXPECT_EQ(two.waves, 2);
  EXPECT_NEAR(two.work_seconds, 2 * one.work_seconds, 1e-12);
}

TEST(CostModel, DeviceMemoryIsAFloor) {
  const Shape decode{256, 1, 65536, 8, 8};
  KernelCost quick = cost;
  quick.tile_cycles = 1;
  const Load load = load_of(decode, {128, 128, 128}, {});
  const double bytes = 256.0 * 8 * 65536 * 2 * 128 * 2;
  EXPECT_GE(load.bytes, bytes);
  EXPECT_GE(predict(quick, load, h200).seconds(), bytes / h200.bytes_per_second);
}

TEST(CostModel, KeysThatNoRowSeesAreNotRead) {
  const Load all = load_of(Shape{1, 1, 131072}, {128, 128, 128}, causal_band);
  const Load few = load_of(Shape{1, 1, 131072}, {128, 128, 128}, {-4095, 0});
  EXPECT_NEAR(few.bytes / all.bytes, 4096.0 / 131072, 0.001);
  EXPECT_EQ(few.tiles, 8 * 32);
}

TEST(CostModel, NothingToDoCostsALaunch) {
  for (const Shape& shape : {Shape{1, 0, 100}, Shape{0, 5, 5}}) {
    const Prediction p = predict(cost, load_of(shape, {128, 128, 128}, {}), h200);
    EXPECT_EQ(p.items, 0);
    EXPECT_EQ(p.seconds(), p.launch_seconds);
  }
  EXPECT_EQ(load_of(Shape{1, 5, 0}, {128, 128, 128}, {}).tiles, 0);
}

Contender contender(int kernel, double seconds) {
  Prediction p;
  p.work_seconds = seconds;
  return {kernel, p};
}

TEST(Fastest, IsTheLeastAndOfEqualOnesTheFirst) {
  EXPECT_EQ(fastest(std::vector{contender(0, 2), contender(1, 1), contender(2, 3)}).kernel, 1);
  EXPECT_EQ(fastest(std::vector{contender(0, 1), contender(1, 1)}).kernel, 0);
}

TEST(Fastest, OneOfWhichNothingIsKnownKeepsItsPlace) {
  EXPECT_EQ(fastest(std::vector{Contender{0, {}}, contender(1, 1)}).kernel, 0);
  EXPECT_EQ(fastest(std::vector{contender(0, 2), Contender{1, {}}, contender(2, 1)}).kernel, 2);
}

}  // namespace
}  // namespace tilefold::planner
