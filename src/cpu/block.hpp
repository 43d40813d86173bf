// One work item: a block of query tiles against its key tiles, and how its rows leave.
//
//   walk the key tiles that some row of the block sees
//     gather and pack the tile once
//     for each query tile: scores, score changes, masks, online softmax, weighted values
#pragma once

#include "core/geometry.hpp"
#include "cpu/gather.hpp"
#include "cpu/prefetch.hpp"
#include "cpu/scratch.hpp"
#include "cpu/tile_kernel.hpp"
#include "plan/row_runs.hpp"
#include "plan/schedule.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::cpu {

/// What all work items of a run share.
struct Job {
  const core::Geometry& geometry;
  const planner::Schedule& schedule;
  const Options& options;
  const Tensors& tensors;
  KeyRows keys, values;
  QueryRows queries;

  bool value_in_key() const { return options.value_source == ValueSource::view_of_key; }
};

/// Rows [first, last) of an item's sequence and KV head that make one query tile.
struct TileOfRows {
  int index;  // within the block
  std::int64_t first, last;
};

/// Folds the item's keys into scratch.state or into `state`; leaves it undivided.
template <class F> class Block {
 public:
  Block(const Job& job, const planner::WorkItem& item, const TileKernel<F>& kernel,
        const Scratch<F>& scratch, const BlockState<F>& state)
      : job_(job), item_(item), kernel_(kernel), scratch_(scratch), state_(state) {}

  TileCounts compute();

 private:
  struct KeyRange {
    int first, last;
  };
  struct KeyTile {
    int first, last;   // keys
    int hidden_first;  // of them, so many that no row sees: zeros stand for them
    bool loaded = false;
    TileRows keys, values;
  };

  int tiles() const;
  TileRows behind_zeros(TileRows rows, int zeros, char* scratch) const;
  TileOfRows tile(int index) const;
  score::Truth ask(const TileOfRows& rows, int first_key, int last_key) const;
  TileOfRows all_rows() const { return {0, item_.first_row, item_.last_row}; }

  void load_queries() const;
  void load(KeyTile& tile) const;
  void clip(KeyTile& tile) const;
  int first_visible(int first, int last) const;
  int last_visible(const TileOfRows& rows, int first, int last) const;
  int shown_to_all(const TileOfRows& rows, int first, int last) const;
  KeyTile seen_by(const TileOfRows& rows, const KeyTile& tile) const;
  void visit(const KeyRange& range, score::Truth truth, Prefetcher& next, TileCounts& counts) const;
  Prefetcher prefetcher(const KeyRange& next) const;
  void fold(const TileOfRows& rows, const KeyTile& tile, score::Truth truth,
            Prefetcher& next) const;
  WeightParts weight_parts(const KeyTile& tile, score::Truth truth) const;
  void score_keys(const TileOfRows& rows, const KeyTile& tile, Prefetcher& next) const;

  void change_scores(const TileOfRows& rows, const KeyTile& tile) const;
  void add_alibi(const TileOfRows& rows, const KeyTile& tile) const;
  void add_bias(const TileOfRows& rows, const KeyTile& tile) const;
  void add_bias_row(const planner::RowRun& run, int row, const KeyTile& tile) const;
  void hide(const TileOfRows& rows, const KeyTile& tile) const;
  void hide_run(const planner::RowRun& run, const KeyTile& tile, F* scores) const;
  score::TilePositions positions(const planner::RowRun& run, const KeyTile& tile) const;

  template <class Visit> void for_each_run(const TileOfRows& rows, const Visit& visit) const {
    planner::for_each_run(job_.geometry, item_.sequence, item_.kv_head, rows.first, rows.last,
                          visit);
  }

  const Job& job_;
  const planner::WorkItem& item_;
  const TileKernel<F>& kernel_;
  const Scratch<F>& scratch_;
  const BlockState<F>& state_;
};

/// Joins `part` into `into`: the parts of one block over two sets of keys.
template <class F>
void join_blocks(const BlockState<F>& into, const BlockState<F>& part, int tiles);

/// Divides, adds sinks and writes out and lse for the item's rows. `row` holds value_dim elements.
template <class F>
void finish_rows(const Job& job, const planner::WorkItem& item, const BlockState<F>& state, F* row);

/// Rows that belong to no query (past a dense sequence's length, after the last ragged one):
/// out = 0, lse = -inf.
void clear_unowned_rows(const Job& job);

}  // namespace tilefold::cpu
