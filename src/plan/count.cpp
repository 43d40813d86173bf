#include "plan/count.hpp"

#include "plan/row_runs.hpp"
#include "plan/tile_walk.hpp"

namespace tilefold::planner {

namespace {

void count_rows(const core::Geometry& g, const Schedule& schedule, const score::MaskNode* mask,
                int sequence, int kv_head, std::int64_t first_row, std::int64_t last_row,
                Work& work) {
  const int keys = g.sequences[std::size_t(sequence)].key_length;
  const int tile_keys = schedule.tile.tile_keys;
  const int tiles = (keys + tile_keys - 1) / tile_keys;
  const auto last_key = [&](int tile) { return std::min(tile * tile_keys, keys); };
  std::int64_t visited = 0;
  walk_tiles(
      0, tiles,
      [&](int first, int last) {
        return answer(g, mask, sequence, kv_head, first_row, last_row, first * tile_keys,
                      last_key(last));
      },
      [&](int first, int last, score::Truth truth) {
        (truth.yes() ? work.tiles.full : work.tiles.partial) += last - first;
        visited += last - first;
        work.pairs += (last_row - first_row) * (last_key(last) - first * tile_keys);
      });
  work.tiles.none += tiles - visited;
}

}  // namespace

Work count_work(const core::Geometry& geometry, const Schedule& schedule,
                const score::MaskNode* mask) {
  Work work;
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
        count_rows(geometry, schedule, mask, b, list * pack / group, first + row, first + last,
                   work);
        row = last;
      }
    }
  }
  return work;
}

}  // namespace tilefold::planner
