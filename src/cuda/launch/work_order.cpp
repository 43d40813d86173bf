#include "cuda/launch/work_order.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "plan/row_runs.hpp"
#include "plan/tile_walk.hpp"

namespace tilefold::cuda {

namespace {

// K and V that the blocks at work share, of 50 MB of L2 on Hopper, and the share of the row tiles
// that come last. Measured on an H200 (docs/kernels/forward_sm90.md): with few row tiles a list, a
// section of 32 MiB is half of all the work and its end shows.
constexpr std::int64_t section_bytes = 32 << 20, short_section_bytes = 16 << 20;
constexpr int short_rows = 8;  // row tiles
constexpr int tail_share = 4;
// A part shorter than this does not pay for its merge.
constexpr int shortest_split = 256;

std::int64_t key_bytes(const core::Geometry& g, std::int64_t keys) {
  return std::max<std::int64_t>(1, 2 * keys * (g.head_dim + g.value_dim));
}

/// At most `wanted` lists a section, of equal sections where a number not far below divides all.
int even_section(int lists, std::int64_t wanted) {
  const int most = int(std::clamp<std::int64_t>(wanted, 1, std::max(lists, 1)));
  for (int section = most; 4 * section >= 3 * most; --section)
    if (lists % section == 0) return section;
  return most;
}

/// Keys that the range leaves the item.
std::int64_t cost(const ForwardParams& p, const core::Sequence& s, const ForwardWork& work) {
  SequenceInfo info{};
  info.query_length = s.query_length, info.key_length = s.key_length;
  info.query_start = s.query_start, info.key_start = s.key_start, info.offset = s.offset;
  const KeyRange keys = keys_of(p, info, work);
  return keys.end - keys.begin;
}

}  // namespace

int choose_split(const SplitQuestion& q) {
  if (q.items == 0 || q.items >= q.slots || q.keys < 2 * shortest_split) return 0;
  const std::int64_t tiles = (q.keys + q.tile_keys - 1) / q.tile_keys;
  const std::int64_t most =
      std::min<std::int64_t>(q.keys / shortest_split, (4 * q.slots + q.items - 1) / q.items);
  std::int64_t best = 0, least = tiles + 2;
  for (std::int64_t parts = 2; parts <= most; ++parts) {
    const std::int64_t part = (tiles + parts - 1) / parts;
    const std::int64_t waves = (q.items * ((tiles + part - 1) / part) + q.slots - 1) / q.slots;
    const std::int64_t time = waves * (part + 2) + 2;
    if (time < least) least = time, best = part;
  }
  return int(best * q.tile_keys);
}

bool rises(const RangeMask& range) {
  return range.high != RangeMask::unbounded_high && range.low == RangeMask::unbounded_low;
}

bool rises(const core::Geometry& g, const planner::TileShape& tile, const score::MaskNode* mask) {
  if (g.sequences.empty() || mask == nullptr) return false;
  const core::Sequence& s = g.sequences.front();
  const int key_tiles = (s.key_length + tile.tile_keys - 1) / tile.tile_keys;
  std::int64_t first_tiles = -1, tiles_before = -1;
  for (int row = 0; row < s.query_length; row += tile.block_queries) {
    std::int64_t tiles = 0;
    planner::walk_tiles(
        0, key_tiles,
        [&](int first, int last) {
          return planner::answer(
              g, mask, 0, 0, row, std::min(row + tile.block_queries, s.query_length),
              first * tile.tile_keys, std::min(last * tile.tile_keys, s.key_length));
        },
        [&](int first, int last, score::Truth) { tiles += last - first; });
    if (tiles < tiles_before) return false;
    if (first_tiles < 0) first_tiles = tiles;
    tiles_before = tiles;
  }
  return tiles_before > first_tiles;
}

sm90::WorkOrder sm90_order(const core::Geometry& geometry, const ForwardParams& params,
                           bool rising) {
  if (params.work != nullptr) return {};
  const int lists = geometry.batch * params.lists, row_tiles = params.shape.row_tiles;
  if (!rising || params.shape.splits != 1 || row_tiles == 1)
    return sm90::WorkOrder::plain(lists, row_tiles);
  const std::int64_t bytes = row_tiles <= short_rows ? short_section_bytes : section_bytes;
  const std::int64_t heads_of_keys =
      std::max<std::int64_t>(1, bytes / key_bytes(geometry, geometry.max_key_length));
  const std::int64_t lists_of_a_head = params.group / params.pack;
  return sm90::WorkOrder::sections(
      lists, row_tiles, even_section(lists, heads_of_keys * lists_of_a_head), tail_share);
}

void longest_first(std::vector<ForwardWork>& work, const core::Geometry& geometry,
                   const ForwardParams& params) {
  struct Entry {
    std::int64_t cost;
    int section;
    bool tail;
    ForwardWork work;
  };
  // Sections: lists in the order of their keys, the longest first, until the L2 is full.
  std::vector<int> sequences(geometry.sequences.size());
  std::iota(sequences.begin(), sequences.end(), 0);
  const auto keys = [&](int sequence) {
    return geometry.sequences[std::size_t(sequence)].key_length;
  };
  std::stable_sort(sequences.begin(), sequences.end(),
                   [&](int a, int b) { return keys(a) > keys(b); });
  std::vector<int> first_section(sequences.size());  // of list 0
  std::vector<std::int64_t> lists_a_section(sequences.size());
  std::int64_t filled = 0;
  int section = 0;
  for (int b : sequences) {
    const std::int64_t bytes = key_bytes(geometry, keys(b)) * params.pack / params.group;
    if (filled + bytes * params.lists > section_bytes && filled > 0) ++section, filled = 0;
    first_section[std::size_t(b)] = section;
    lists_a_section[std::size_t(b)] =
        std::max<std::int64_t>(1, section_bytes / std::max<std::int64_t>(1, bytes));
    section += int((params.lists - 1) / lists_a_section[std::size_t(b)]);
    filled += bytes * params.lists;
  }
  std::vector<Entry> entries;
  entries.reserve(work.size());
  for (const ForwardWork& item : work) {
    const auto b = std::size_t(item.sequence);
    entries.push_back({cost(params, geometry.sequences[b], item),
                       first_section[b] + int(item.kv_head / lists_a_section[b]), false, item});
  }
  std::vector<std::int64_t> costs;
  for (const Entry& e : entries) costs.push_back(e.cost);
  const std::size_t tail = costs.size() / tail_share;
  if (tail > 0) {
    std::nth_element(costs.begin(), costs.begin() + std::ptrdiff_t(tail), costs.end());
    for (Entry& e : entries) e.tail = e.cost < costs[tail];
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    if (a.tail != b.tail) return b.tail;
    if (!a.tail && a.section != b.section) return a.section < b.section;
    return a.cost > b.cost;
  });
  for (std::size_t i = 0; i < work.size(); ++i) work[i] = entries[i].work;
}

}  // namespace tilefold::cuda
