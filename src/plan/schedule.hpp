// The work of one plan, as plain data: tile shapes, split borders and a numbered list of items.
//
// Rows: the queries of all heads that share a KV head stand in one list, head after head, so that a
// grouped decode fills tiles: row r is query r % Sq of head list * pack + r / Sq, pack = group.
// Tiles of rows may straddle heads. A kernel that gains nothing by it takes a list a head: pack
// = 1. A block is a run of tiles that shares each prepared key tile. Splits: borders lie at
// absolute keys, multiples of split_keys, chosen from the problem alone. The number of threads
// changes no bit of the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/geometry.hpp"

namespace tilefold::planner {

struct TileShape {
  int tile_queries = 0;   // rows of one tile of scores
  int tile_keys = 0;      // keys of one tile of scores
  int block_queries = 0;  // rows of one work item, a multiple of tile_queries
};

/// A part of the output that one thread computes alone.
struct WorkItem {
  int sequence = 0;
  int kv_head = 0;  // number of the list; where a list holds the whole group, its KV head
  std::int64_t first_row = 0, last_row = 0;  // rows as above, of this list
  int first_key = 0, last_key = 0;           // keys [first, last)
  int split = 0, splits = 1;                 // which of how many
  std::int64_t part = 0;                     // index of this (block, split) among all parts
};

struct Schedule {
  TileShape tile;
  int split_keys = 0;                    // 0: rows are never split
  int pack = 0;                          // query heads of a list; 0: all that share a KV head
  std::vector<std::int64_t> first_item;  // [batch + 1], running count over sequences

  std::int64_t items() const { return first_item.empty() ? 0 : first_item.back(); }
  int splits(const core::Sequence& s) const {
    if (split_keys == 0) return 1;
    return std::max(1, (s.key_length + split_keys - 1) / split_keys);
  }
  int packed_heads(const core::Geometry& g) const { return pack == 0 ? g.group() : pack; }
  int lists(const core::Geometry& g) const { return g.query_heads / packed_heads(g); }
  /// Of one list.
  std::int64_t blocks(const core::Geometry& g, const core::Sequence& s) const {
    const std::int64_t rows = std::int64_t(packed_heads(g)) * s.query_length;
    return (rows + tile.block_queries - 1) / tile.block_queries;
  }
  /// Item numbers run over (sequence, list, block, split), the last fastest.
  WorkItem item(const core::Geometry& g, std::int64_t index) const;
};

/// Splits, blocks and the item list for a tile shape, whose block_queries is the largest block
/// wanted. `threads` sets the size of blocks, which changes no bit; splits follow from the problem
/// alone.
Schedule make_schedule(const core::Geometry& geometry, TileShape tile, Reproducibility mode,
                       int threads);

}  // namespace tilefold::planner
