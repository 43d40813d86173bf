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
constexpr unsigned asked_row_tiles = 8;
// Sequences that are asked, evenly spread: a plan of thousands takes as long as one of these. Those
// between count as the one before them.
constexpr std::size_t most_asked = 64;

/// Keys [begin, end) of a sequence; none where begin >= end. Unsigned: 32-bit divisions by the tile
/// are most of what a prediction costs.
struct KeySpan {
  unsigned begin, end;
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
  return {unsigned(std::clamp<std::int64_t>(low, 0, keys)),
          unsigned(std::clamp<std::int64_t>(high + 1, 0, keys))};
}

struct TilesMet {
  unsigned visited, cut;
};

/// Ranges move evenly with the query: the outermost two bound what any row sees, and what all see.
TilesMet tiles_of(KeySpan first, KeySpan last, unsigned tile_keys) {
  const KeySpan any{std::min(first.begin, last.begin), std::max(first.end, last.end)};
  const KeySpan all{std::max(first.begin, last.begin), std::min(first.end, last.end)};
  if (any.begin >= any.end) return {0, 0};
  const auto up = [&](unsigned key) { return (key + tile_keys - 1) / tile_keys; };
  const unsigned visited = up(any.end) - any.begin / tile_keys;
  const unsigned full_begin = up(all.begin), full_end = all.end / tile_keys;
  return {visited, visited - (full_end > full_begin ? full_end - full_begin : 0)};
}

/// Keys that some query sees.
double keys_seen(const core::Geometry& g, const core::Sequence& s, KeyBand band) {
  const KeySpan a = seen_by(0, g, s, band), b = seen_by(s.query_length - 1, g, s, band);
  const unsigned begin = std::min(a.begin, b.begin), end = std::max(a.end, b.end);
  return end > begin ? end - begin : 0;
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
  if (s.query_length == 0) return {};
  const RowTiles row = row_tiles(g, s, schedule.tile, band);
  const std::int64_t blocks = schedule.lists(g) * schedule.blocks(g, s);
  const int splits = schedule.splits(s);
  Load load;
  load.items = blocks * splits;
  load.tiles = row.mean * double(blocks);
  load.cut_tiles = row.cut * double(blocks);
  load.longest = row.most;
  if (splits == 1) return load;
  const double part_tiles = double(schedule.split_keys) / schedule.tile.tile_keys;
  load.longest = std::min(row.most, part_tiles);
  load.part_bytes = 2.0 * splits * s.query_length * g.query_heads * 4 * (g.value_dim + 2);
  return load;
}

/// `times` sequences like one.
void add(Load& all, const Load& one, std::size_t times) {
  all.items += one.items * std::int64_t(times);
  all.tiles += one.tiles * double(times);
  all.cut_tiles += one.cut_tiles * double(times);
  all.longest = std::max(all.longest, one.longest);
  all.bytes += one.bytes * double(times);
  all.part_bytes += one.part_bytes * double(times);
}

}  // namespace

RowTiles row_tiles(const core::Geometry& g, const core::Sequence& s, const TileShape& tile,
                   KeyBand band) {
  if (s.query_length == 0) return {};
  const unsigned rows = unsigned(tile.tile_queries), queries = unsigned(s.query_length);
  const unsigned count = (queries + rows - 1) / rows, asked = std::min(count, asked_row_tiles);
  RowTiles all;
  for (unsigned i = 0; i < asked; ++i) {
    // The middle of each share; of the two beside a middle the later and the earlier in turn.
    const unsigned first = ((2 * i + 1) * count - i % 2) / (2 * asked) * rows;
    const unsigned last = std::min(first + rows, queries) - 1;
    const TilesMet met = tiles_of(seen_by(int(first), g, s, band), seen_by(int(last), g, s, band),
                                  unsigned(tile.tile_keys));
    all.mean += met.visited;
    all.cut += met.cut;
    all.most = std::max(all.most, double(met.visited));
  }
  all.mean /= asked;
  all.cut /= asked;
  return all;
}

Load load_of(const core::Geometry& g, const Schedule& schedule, KeyBand band,
             const CardFigures& card, std::int64_t slots) {
  Load all, one;
  const core::Sequence* before = nullptr;
  const std::size_t batch = g.sequences.size(), share = (batch + most_asked - 1) / most_asked;
  for (std::size_t i = 0; i < batch; i += share) {
    const core::Sequence& s = g.sequences[i];
    if (before == nullptr || !cost_alike(s, *before)) {
      one = load_of_sequence(g, s, schedule, band);
      if (one.items > 0) one.bytes = device_bytes(g, s, schedule, band, card, slots);
    }
    before = &s;
    add(all, one, std::min(share, batch - i));
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
