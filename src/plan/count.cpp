#include "plan/count.hpp"

#include <algorithm>

#include "plan/row_runs.hpp"
#include "plan/tile_walk.hpp"

namespace tilefold::planner {

namespace {

/// Rows [first, last) of a sequence and KV head that make a tile.
struct RowRange {
  int sequence, kv_head;
  std::int64_t first, last;
};

/// Calls visit(RowRange) for every tile of rows of a schedule.
template <class Visit>
void each_row_tile(const core::Geometry& geometry, const Schedule& schedule, const Visit& visit) {
  const int pack = schedule.packed_heads(geometry), group = geometry.group();
  for (int b = 0; b < int(geometry.sequences.size()); ++b) {
    const std::int64_t queries = geometry.sequences[std::size_t(b)].query_length;
    const std::int64_t rows = pack * queries;
    for (int list = 0; list < schedule.lists(geometry); ++list) {
      const std::int64_t first = list * pack % group * queries;  // among the KV head's rows
      for (std::int64_t row = 0; row < rows;) {
        // Tiles start anew in each block, as they do when the block is computed.
        const std::int64_t block_end =
            (row / schedule.tile.block_queries + 1) * schedule.tile.block_queries;
        const std::int64_t last = std::min({row + schedule.tile.tile_queries, block_end, rows});
        visit(RowRange{b, list * pack / group, first + row, first + last});
        row = last;
      }
    }
  }
}

/// Calls visit(first_key, last_key, answer, tiles) for the ranges of keys that a tile of rows
/// meets.
template <class Visit> void each_key_range(const core::Geometry& g, const Schedule& schedule,
                                           const score::MaskNode* mask, const RowRange& rows,
                                           const Visit& visit) {
  const int keys = g.sequences[std::size_t(rows.sequence)].key_length;
  const int tile_keys = schedule.tile.tile_keys;
  const auto last_key = [&](int tile) { return std::min(tile * tile_keys, keys); };
  walk_tiles(
      0, (keys + tile_keys - 1) / tile_keys,
      [&](int first, int last) {
        return answer(g, mask, rows.sequence, rows.kv_head, rows.first, rows.last,
                      first * tile_keys, last_key(last));
      },
      [&](int first, int last, score::Truth truth) {
        visit(first * tile_keys, last_key(last), truth, last - first);
      });
}

constexpr int most_rectangles = 256;

/// The corner of a partial tile that a mask is asked about element by element: of its first run.
score::TilePositions corner(const core::Geometry& g, const RowRange& rows, int first_key,
                            int last_key) {
  score::TilePositions tile{};
  bool found = false;
  for_each_run(g, rows.sequence, rows.kv_head, rows.first, rows.last, [&](const RowRun& run) {
    if (found) return;
    found = true;
    tile = {g.query_position(rows.sequence, run.first_query),
            g.query_stride,
            std::min(run.count, score::max_tile_queries),
            g.key_position(rows.sequence, first_key),
            g.key_stride,
            std::min(last_key - first_key, score::max_tile_keys),
            g.place(rows.sequence, run.query_head)};
  });
  return tile;
}

}  // namespace

Work count_work(const core::Geometry& geometry, const Schedule& schedule,
                const score::MaskNode* mask) {
  Work work;
  each_row_tile(geometry, schedule, [&](const RowRange& rows) {
    const int keys = geometry.sequences[std::size_t(rows.sequence)].key_length;
    std::int64_t visited = 0;
    each_key_range(geometry, schedule, mask, rows,
                   [&](int first_key, int last_key, score::Truth truth, int tiles) {
                     (truth.yes() ? work.tiles.full : work.tiles.partial) += tiles;
                     visited += tiles;
                     work.pairs += (rows.last - rows.first) * (last_key - first_key);
                   });
    const int tile_keys = schedule.tile.tile_keys;
    work.tiles.none += (keys + tile_keys - 1) / tile_keys - visited;
  });
  return work;
}

Bluntness blunt_terms(const core::Geometry& geometry, const Schedule& schedule,
                      const score::MaskNode* mask) {
  Bluntness found;
  if (mask == nullptr) return found;
  const std::int64_t partial = count_work(geometry, schedule, mask).tiles.partial;
  const std::int64_t step = std::max<std::int64_t>(1, partial / most_rectangles);
  std::int64_t met = 0;
  const auto name = [&](const std::string& text) {
    for (BluntTerm& term : found.terms)
      if (term.text == text) return void(++term.rectangles);
    found.terms.push_back({text, 1});
  };
  each_row_tile(geometry, schedule, [&](const RowRange& rows) {
    each_key_range(geometry, schedule, mask, rows,
                   [&](int first_key, int last_key, score::Truth truth, int) {
                     if (truth.yes() || met++ % step != 0) return;
                     ++found.rectangles;
                     mask->name_blunt_terms(corner(geometry, rows, first_key, last_key), name);
                   });
  });
  std::stable_sort(
      found.terms.begin(), found.terms.end(),
      [](const BluntTerm& a, const BluntTerm& b) { return a.rectangles > b.rectangles; });
  return found;
}

}  // namespace tilefold::planner
