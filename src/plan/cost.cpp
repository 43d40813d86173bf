#include "plan/cost.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace tilefold::planner {

namespace {

// From a launch to the first item's first instruction and from the last item's end to the next
// launch's. Estimated: the points of bench/results/2026-11-30-h200-forward.csv fit as well with 2
// us as with 4.
constexpr double launch_seconds = 3e-6;
// A second launch behind the first, its parts in the L2 cache. Estimated.
constexpr double merge_launch_seconds = 2e-6, part_bytes_per_second = 3e12;
// Of the vendor's bandwidth. Estimated: no committed figure is bound by memory.
constexpr double reachable_bandwidth = 0.9;
// Row tiles that are asked in a sequence: in between the range moves evenly.
constexpr std::int64_t asked_row_tiles = 8;

/// Keys [begin, end) of a sequence; none where begin >= end.
struct KeySpan {
  std::int64_t begin, end;
};

std::int64_t rounded_down(std::int64_t value, std::int64_t divisor) {
  return (value >= 0 ? value : value - divisor + 1) / divisor;
}
std::int64_t rounded_up(std::int64_t value, std::int64_t divisor) {
  return -rounded_down(-value, divisor);
}

/// low <= key_start + stride * key - position - offset <= high, as the kernels have it.
KeySpan seen_by(int query, const core::Geometry& g, const core::Sequence& s, KeyBand band) {
  const std::int64_t shift =
      std::int64_t{s.query_start} + std::int64_t{g.query_stride} * query + s.offset - s.key_start;
  std::int64_t low = band.low + shift, high = band.high + shift;
  if (g.key_stride < 0) low = -std::exchange(high, -low);
  const std::int64_t step = std::abs(g.key_stride), keys = s.key_length;
  if (step != 1) low = rounded_up(low, step), high = rounded_down(high, step);
  return {std::clamp<std::int64_t>(low, 0, keys), std::clamp<std::int64_t>(high + 1, 0, keys)};
}

struct TilesMet {
  std::int64_t visited, cut;
};

/// Ranges move evenly with the query: the outermost two bound what any row sees, and what all see.
TilesMet tiles_of(KeySpan first, KeySpan last, int tile_keys) {
  const KeySpan any{std::min(first.begin, last.begin), std::max(first.end, last.end)};
  const KeySpan all{std::max(first.begin, last.begin), std::min(first.end, last.end)};
  if (any.begin >= any.end) return {0, 0};
  const std::int64_t visited = rounded_up(any.end, tile_keys) - rounded_down(any.begin, tile_keys);
  const std::int64_t full = rounded_down(all.end, tile_keys) - rounded_up(all.begin, tile_keys);
  return {visited, visited - std::max<std::int64_t>(0, full)};
}

/// Keys that some query sees.
double keys_seen(const core::Geometry& g, const core::Sequence& s, KeyBand band) {
  const KeySpan a = seen_by(0, g, s, band), b = seen_by(s.query_length - 1, g, s, band);
  return double(std::max<std::int64_t>(0, std::max(a.end, b.end) - std::min(a.begin, b.begin)));
}

double key_bytes(const core::Geometry& g) {
  return g.head_dim * bytes_of(g.key_dtype) + g.value_dim * bytes_of(g.value_dtype);
}
double query_bytes(const core::Geometry& g) {
  return g.head_dim * bytes_of(g.query_dtype) + g.value_dim * bytes_of(g.out_dtype);
}

/// What a sequence's cost depends on is that of the other.
bool cost_alike(const core::Sequence& a, const core::Sequence& b) {
  return a.query_length == b.query_length && a.key_length == b.key_length &&
         a.query_start == b.query_start && a.key_start == b.key_start && a.offset == b.offset;
}

/// Keys that the L2 cache cannot hold come again for each wave of the rows that read them.
double device_bytes(const core::Geometry& g, const core::Sequence& s, const Schedule& schedule,
                    KeyBand band, const CardFigures& card, std::int64_t slots) {
  const double head = keys_seen(g, s, band) * key_bytes(g);
  const std::int64_t rows_of_head = schedule.blocks(g, s) * schedule.lists(g) / g.kv_heads;
  const double reads =
      head > card.cache_bytes ? std::ceil(double(rows_of_head) / double(slots)) : 1;
  return double(s.query_length) * g.query_heads * query_bytes(g) + g.kv_heads * head * reads;
}

Load load_of_sequence(const core::Geometry& g, const core::Sequence& s, const Schedule& schedule,
                      KeyBand band) {
  const RowTiles row = row_tiles(g, s, schedule.tile, band);
  const std::int64_t blocks = schedule.lists(g) * schedule.blocks(g, s);
  const int splits = schedule.splits(s);
  Load load;
  load.items = blocks * splits;
  load.tiles = row.mean * double(blocks);
  load.cut_tiles = row.cut * double(blocks);
  const double part = splits == 1 ? row.most : schedule.split_keys / schedule.tile.tile_keys;
  load.longest = std::min(row.most, part);
  if (splits > 1)
    load.part_bytes = 2.0 * splits * s.query_length * g.query_heads * 4 * (g.value_dim + 2);
  return load;
}

void add(Load& all, const Load& one) {
  all.items += one.items;
  all.tiles += one.tiles;
  all.cut_tiles += one.cut_tiles;
  all.longest = std::max(all.longest, one.longest);
  all.bytes += one.bytes;
  all.part_bytes += one.part_bytes;
}

}  // namespace

RowTiles row_tiles(const core::Geometry& g, const core::Sequence& s, const TileShape& tile,
                   KeyBand band) {
  if (s.query_length == 0) return {};
  const std::int64_t rows = tile.tile_queries, count = rounded_up(s.query_length, rows);
  const std::int64_t asked = std::min(count, asked_row_tiles);
  RowTiles all;
  for (std::int64_t i = 0; i < asked; ++i) {
    // The middle of each share; of the two beside a middle the later and the earlier in turn.
    const std::int64_t first = ((2 * i + 1) * count - i % 2) / (2 * asked) * rows;
    const std::int64_t last = std::min<std::int64_t>(first + rows, s.query_length) - 1;
    const TilesMet met =
        tiles_of(seen_by(int(first), g, s, band), seen_by(int(last), g, s, band), tile.tile_keys);
    all.mean += double(met.visited) / double(asked);
    all.cut += double(met.cut) / double(asked);
    all.most = std::max(all.most, double(met.visited));
  }
  return all;
}

Load load_of(const core::Geometry& g, const Schedule& schedule, KeyBand band,
             const CardFigures& card, std::int64_t slots) {
  Load all, one;
  const core::Sequence* before = nullptr;
  for (const core::Sequence& s : g.sequences) {
    if (s.query_length == 0) continue;
    if (before == nullptr || !cost_alike(s, *before)) {
      one = load_of_sequence(g, s, schedule, band);
      one.bytes = device_bytes(g, s, schedule, band, card, slots);
    }
    before = &s;
    add(all, one);
  }
  return all;
}

double Prediction::seconds() const {
  return launch_seconds + std::max(work_seconds, memory_seconds) + merge_seconds;
}

Prediction predict(const KernelCost& cost, const Load& load, const CardFigures& card) {
  Prediction p;
  p.items = load.items;
  p.measured = cost.measured;
  p.launch_seconds = launch_seconds;
  if (load.items == 0) return p;
  const std::int64_t slots = std::int64_t{card.multiprocessors} * cost.blocks;
  p.waves = (load.items + slots - 1) / slots;
  p.tiles = load.tiles / double(load.items);
  const double cut = cost.cut_cycles * load.cut_tiles / double(load.items);
  const double mean = cost.item_cycles + cost.tile_cycles * p.tiles + cut;
  const double longest = cost.item_cycles + cost.tile_cycles * load.longest + cut;
  const double share = load.items <= card.multiprocessors ? cost.alone : 1;
  p.work_seconds = share * std::max(longest, double(p.waves) * mean) / card.cycles_per_second;
  p.memory_seconds = load.bytes / (reachable_bandwidth * card.bytes_per_second);
  if (load.part_bytes > 0)
    p.merge_seconds = merge_launch_seconds + load.part_bytes / part_bytes_per_second;
  return p;
}

}  // namespace tilefold::planner
