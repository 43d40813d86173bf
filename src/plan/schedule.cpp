#include "plan/schedule.hpp"

namespace tilefold::planner {

namespace {

// Work items a thread: the last ones to end then delay a run by a few percent. Under causal masks
// the longest start first.
constexpr std::int64_t items_a_thread = 8;
// Parts in all that long rows are split into where there are too few rows: enough for 16 threads.
constexpr std::int64_t enough_parts = 64;
// Queries and sums of a block that should stay in a second-level cache, beside the key tiles.
constexpr std::int64_t block_cache_bytes = std::int64_t{1} << 20;
// A part of a split row costs a merge and a write of its state: shorter parts do not pay.
constexpr int shortest_split = 1024;
// Absolute borders of the batch-invariant mode, in keys (docs/semantics.md).
constexpr int invariant_split = 4096;

std::int64_t count_items(const core::Geometry& g, const Schedule& schedule) {
  std::int64_t items = 0;
  for (const core::Sequence& s : g.sequences)
    items += schedule.lists(g) * schedule.blocks(g, s) * schedule.splits(s);
  return items;
}

// Example: one sequence of one decode row over 131072 keys and 8 KV heads is 8 tiles of rows; 64
// are wanted, so rows are split in 8 parts of 16384 keys.
int choose_split(const core::Geometry& g, Schedule schedule) {
  schedule.tile.block_queries = schedule.tile.tile_queries;
  const std::int64_t items = count_items(g, schedule);
  if (items == 0 || items >= enough_parts / 2 || g.max_key_length < 2 * shortest_split) return 0;
  const std::int64_t parts = (enough_parts + items - 1) / items;
  const std::int64_t keys = (g.max_key_length + parts - 1) / parts;
  const int tile = schedule.tile.tile_keys;
  return int((std::max<std::int64_t>(keys, shortest_split) + tile - 1) / tile * tile);
}

// Rows of a block, a multiple of the tile's: as many as the cache holds, fewer where every thread
// would not get its share of items.
int choose_block(const core::Geometry& g, Schedule schedule, int threads) {
  const int tile = schedule.tile.tile_queries;
  const std::int64_t row_bytes = (g.computes_in_double() ? 8 : 4) * (g.head_dim + g.value_dim);
  const int rows =
      int(std::min<std::int64_t>(schedule.tile.block_queries, block_cache_bytes / row_bytes));
  int tiles = std::max(1, rows / tile);
  for (;; tiles = (tiles + 1) / 2) {
    schedule.tile.block_queries = tiles * tile;
    if (tiles == 1 || count_items(g, schedule) >= items_a_thread * threads)
      return schedule.tile.block_queries;
  }
}

}  // namespace

WorkItem Schedule::item(const core::Geometry& g, std::int64_t index) const {
  const auto after = std::upper_bound(first_item.begin(), first_item.end(), index);
  WorkItem item;
  item.sequence = int(after - first_item.begin()) - 1;
  item.part = index;
  const core::Sequence& s = g.sequences[std::size_t(item.sequence)];
  item.splits = splits(s);
  const std::int64_t local = index - first_item[std::size_t(item.sequence)];
  const std::int64_t block = local / item.splits % blocks(g, s);
  item.split = int(local % item.splits);
  item.kv_head = int(local / item.splits / blocks(g, s));
  item.first_row = block * tile.block_queries;
  item.last_row = std::min<std::int64_t>(item.first_row + tile.block_queries,
                                         std::int64_t(packed_heads(g)) * s.query_length);
  item.first_key = item.split * split_keys;
  item.last_key =
      item.splits == 1 ? s.key_length : std::min(item.first_key + split_keys, s.key_length);
  return item;
}

Schedule make_schedule(const core::Geometry& geometry, TileShape tile, Reproducibility mode,
                       int threads) {
  Schedule schedule;
  schedule.tile = tile;
  schedule.split_keys =
      mode == Reproducibility::batch_invariant ? invariant_split : choose_split(geometry, schedule);
  schedule.tile.block_queries = choose_block(geometry, schedule, threads);
  schedule.first_item.reserve(geometry.sequences.size() + 1);
  schedule.first_item.push_back(0);
  for (const core::Sequence& s : geometry.sequences)
    schedule.first_item.push_back(schedule.first_item.back() + schedule.lists(geometry) *
                                                                   schedule.blocks(geometry, s) *
                                                                   schedule.splits(s));
  return schedule;
}

}  // namespace tilefold::planner
