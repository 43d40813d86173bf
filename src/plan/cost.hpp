// How long a kernel takes for a problem, predicted from counts: work items laid over
// multiprocessors in waves, against the bytes of device memory. Pure arithmetic, a few operations a
// sequence: plan() asks it.
//
//   seconds = launch + max(work, memory) + merge
//   work    = max(longest item, waves * mean item), waves = ceil(items / (multiprocessors *
//   blocks)) item    = item_cycles + tile_cycles * key tiles visited + cut_cycles * key tiles cut
//   by the mask
//
// Example: 4 sequences of 4096 queries and keys, 16 heads, head dimension 128, on sm90's 128 x 128
// tiles: 4 * 16 * 32 items on 132 multiprocessors are 16 waves; an item visits 32 tiles of 2782
// cycles and has 4371 of its own: 16 * 93395 cycles at 1980 MHz are 755 us. Measured: 754 us.
#pragma once

#include <cstdint>

#include "plan/schedule.hpp"

namespace tilefold::planner {

/// What a prediction needs to know of a card.
struct CardFigures {
  int multiprocessors = 0;
  double cycles_per_second = 0;  // of a multiprocessor, at most
  double bytes_per_second = 0;   // of device memory
  double cache_bytes = 0;        // of the L2 cache
};
/// The vendor's figures: 132 multiprocessors, boost clock 1980 MHz, 141 GB of HBM3e at 4.8 TB/s, 50
/// MB of L2.
inline constexpr CardFigures h200{132, 1.98e9, 4.8e12, 50e6};

/// What a kernel costs, in cycles at the card's highest clock. An item's costs are those of a
/// multiprocessor that is full: with `blocks` items at work beside each other.
struct KernelCost {
  double item_cycles = 0;  // of a work item without keys: its queries, first scores, output
  double tile_cycles = 0;  // of a key tile
  double cut_cycles = 0;   // more, where the mask cuts the tile
  double alone = 1;        // share of all these that an item takes alone on its multiprocessor
  int blocks = 1;          // items at work on a multiprocessor at once
  bool measured = false;   // the first three: on an H200; false: estimated
};

/// Distances key - query - offset, of positions, that a mask may leave: causal is (-inf, 0].
struct KeyBand {
  static constexpr std::int64_t unbounded = std::int64_t{1} << 40;  // past any position
  std::int64_t low = -unbounded, high = unbounded;
};

/// What a schedule asks of a card.
struct Load {
  std::int64_t items = 0;
  double tiles = 0;       // key tiles visited, of all items together
  double cut_tiles = 0;   // of those, by the mask or by the end of the keys
  double longest = 0;     // key tiles of the longest item
  double bytes = 0;       // of device memory: inputs and outputs once, keys that no row sees not
  double part_bytes = 0;  // of the parts of split rows, written and read again
};

/// Key tiles of a row tile, of one head's queries in tiles from the first; the mean of at most 8
/// row tiles, evenly spread, and the most of them.
struct RowTiles {
  double mean = 0, most = 0, cut = 0;
};
RowTiles row_tiles(const core::Geometry& geometry, const core::Sequence& sequence,
                   const TileShape& tile, KeyBand band);

/// Of at most 64 sequences, evenly spread; the others are taken to be like those. `slots`: items
/// that the card has at work at once.
Load load_of(const core::Geometry& geometry, const Schedule& schedule, KeyBand band,
             const CardFigures& card, std::int64_t slots);

struct Prediction {
  std::int64_t items = 0, waves = 0;
  double tiles = 0;  // key tiles of a mean item
  double launch_seconds = 0, work_seconds = 0, memory_seconds = 0, merge_seconds = 0;
  bool measured = false;
  bool counts_hidden = false;  // tiles that a formula hides are counted as visited: at most this

  double seconds() const;
};
Prediction predict(const KernelCost& cost, const Load& load, const CardFigures& card);

}  // namespace tilefold::planner
