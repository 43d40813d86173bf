#include "cpu/block.hpp"

#include <cstring>
#include <limits>

#include "cpu/convert.hpp"
#include "plan/exact_weights.hpp"
#include "plan/tile_walk.hpp"

namespace tilefold::cpu {

using score::Truth;

template <class F> int Block<F>::tiles() const {
  const std::int64_t rows = item_.last_row - item_.first_row;
  return int((rows + kernel_.lanes() - 1) / kernel_.lanes());
}

template <class F> TileOfRows Block<F>::tile(int index) const {
  const std::int64_t first = item_.first_row + std::int64_t(index) * kernel_.lanes();
  return {index, first, std::min(first + kernel_.lanes(), item_.last_row)};
}

template <class F> Truth Block<F>::ask(const TileOfRows& rows, int first_key, int last_key) const {
  return planner::answer(job_.geometry, job_.options.mask.node(), item_.sequence, item_.kv_head,
                         rows.first, rows.last, first_key, last_key);
}

template <class F> TileCounts Block<F>::compute() {
  state_.clear(tiles());
  load_queries();
  TileCounts counts;
  const int keys = kernel_.tile_keys();
  const int key_tiles = (item_.last_key - item_.first_key + keys - 1) / keys;
  const auto begin = [&](int t) { return item_.first_key + t * keys; };
  const auto end = [&](int t) { return std::min(begin(t), item_.last_key); };
  const auto ask_tiles = [&](int first, int last) {
    return ask(all_rows(), begin(first), end(last));
  };
  planner::walk_tiles(0, key_tiles, ask_tiles, [&](int first, int last, Truth truth) {
    for (int t = first; t < last; ++t) {
      const int next = t + 1;
      const bool wanted = next < last || (next < key_tiles && !ask_tiles(next, next + 1).no());
      Prefetcher fetch = wanted ? prefetcher({begin(next), end(next + 1)}) : Prefetcher();
      visit({begin(t), end(next)}, truth, fetch, counts);
    }
  });
  counts.none = std::int64_t(tiles()) * key_tiles - counts.partial - counts.full;
  return counts;
}

template <class F> void Block<F>::load_queries() const {
  const std::size_t packed = kernel_.packed_query_bytes(job_.geometry.head_dim);
  for (int t = 0; t < tiles(); ++t) {
    const TileOfRows rows = tile(t);
    kernel_.pack_query(job_.queries.read({item_.sequence, item_.kv_head, rows.first, rows.last},
                                         kernel_.element(), scratch_.query_rows),
                       scratch_.packed_query + std::size_t(t) * packed);
  }
}

/// Moves rows into `scratch` (where they may already be) behind so many rows of zeros.
template <class F> TileRows Block<F>::behind_zeros(TileRows rows, int zeros, char* scratch) const {
  if (zeros == 0) return rows;
  const std::size_t element = std::size_t(bytes_of(kernel_.element()));
  const std::size_t row_bytes = element * std::size_t(rows.columns);
  const char* from = static_cast<const char*>(rows.data);
  for (int r = rows.rows - 1; r >= 0; --r)  // backwards: source and target may be the same memory
    std::memmove(scratch + std::size_t(r + zeros) * row_bytes,
                 from + r * rows.row_stride * std::int64_t(element), row_bytes);
  std::memset(scratch, 0, std::size_t(zeros) * row_bytes);
  return {scratch, rows.columns, rows.rows + zeros, rows.columns};
}

template <class F> void Block<F>::load(KeyTile& tile) const {
  const Reuse reuse = tiles() > 1 ? Reuse::many : Reuse::once;
  const KeyRows::Request request{item_.sequence, item_.kv_head, tile.first + tile.hidden_first,
                                 tile.last, reuse};
  tile.keys = behind_zeros(job_.keys.read(request, kernel_.element(), scratch_.key_rows),
                           tile.hidden_first, scratch_.key_rows);
  kernel_.pack_key(tile.keys, scratch_.packed_key);
  if (job_.value_in_key()) {
    tile.values = tile.keys;
    tile.values.columns = job_.geometry.value_dim;
  } else {
    KeyRows::Request once = request;
    if (kernel_.packed_value_bytes(job_.geometry.value_dim) != 0) once.reuse = Reuse::once;
    tile.values = behind_zeros(job_.values.read(once, kernel_.element(), scratch_.value_rows),
                               tile.hidden_first, scratch_.value_rows);
  }
  kernel_.pack_value(tile.values, scratch_.packed_value);
  tile.loaded = true;
}

// Keys at the ends of a tile that no row of the block sees are not read: their memory, or their
// page, may be anything. They would weigh exactly 0, so leaving them out changes no bit.
template <class F> void Block<F>::clip(KeyTile& tile) const {
  const int first = first_visible(tile.first, tile.last);
  const int last = last_visible(all_rows(), tile.first, tile.last);
  tile.hidden_first = (first - tile.first) % kernel_.key_step();
  tile.first = first - tile.hidden_first;
  tile.last = std::max(first, last);
}

/// The first key in [first, last) that the mask may show to some row; `last` where there is none.
template <class F> int Block<F>::first_visible(int first, int last) const {
  const Truth truth = ask(all_rows(), first, last);
  if (truth.no()) return last;
  if (truth.yes() || last - first == 1) return first;
  const int middle = first + (last - first) / 2;
  const int found = first_visible(first, middle);
  return found < middle ? found : first_visible(middle, last);
}

/// One past the last key in [first, last) that the mask may show to a row; `first` for none.
template <class F> int Block<F>::last_visible(const TileOfRows& rows, int first, int last) const {
  const Truth truth = ask(rows, first, last);
  if (truth.no()) return first;
  if (truth.yes() || last - first == 1) return last;
  const int middle = first + (last - first) / 2;
  const int found = last_visible(rows, middle, last);
  return found > middle ? found : last_visible(rows, first, middle);
}

/// One past the first keys of [first, last) that the mask shows to every row.
template <class F> int Block<F>::shown_to_all(const TileOfRows& rows, int first, int last) const {
  const Truth truth = ask(rows, first, last);
  if (truth.yes()) return last;
  if (truth.no() || last - first == 1) return first;
  const int middle = first + (last - first) / 2;
  const int found = shown_to_all(rows, first, middle);
  return found < middle ? found : shown_to_all(rows, middle, last);
}

// Scores of a tile are computed in slices of keys where the kernel reads keys as they are; a step
// of prefetching follows each.
constexpr int slice_keys = 8;
// Blocks of so many tiles read each row often enough that fetching it ahead costs more than it
// saves (docs/kernels/cpu.md), unless the kernel's arithmetic is much faster than memory.
constexpr int enough_reuse = 8;

// The keys that end a tile behind the last one these rows see weigh exactly 0: whole slices of them
// are left out. A kernel that packs keys works in larger steps.
template <class F>
typename Block<F>::KeyTile Block<F>::seen_by(const TileOfRows& rows, const KeyTile& tile) const {
  KeyTile seen = tile;
  if (kernel_.packed_key_bytes(job_.geometry.head_dim) != 0) return seen;
  const int keys = last_visible(rows, tile.first, tile.last) - tile.first;
  const int whole = (keys + slice_keys - 1) / slice_keys * slice_keys;
  seen.last = std::min(tile.last, tile.first + whole);
  seen.keys.rows = seen.values.rows = seen.last - seen.first;
  return seen;
}

template <class F> Prefetcher Block<F>::prefetcher(const KeyRange& next) const {
  const bool packs = kernel_.packed_key_bytes(job_.geometry.head_dim) != 0;
  if (!packs && tiles() >= enough_reuse) return Prefetcher();
  const int slices = packs ? 1 : (kernel_.tile_keys() + slice_keys - 1) / slice_keys;
  return Prefetcher(job_.keys, job_.values,
                    {item_.sequence, item_.kv_head, next.first, next.last, Reuse::many},
                    tiles() * (slices + 1));
}

template <class F> void Block<F>::visit(const KeyRange& range, Truth truth, Prefetcher& next,
                                        TileCounts& counts) const {
  KeyTile keys{range.first, range.last, 0, false, {}, {}};
  for (int t = 0; t < tiles(); ++t) {
    const TileOfRows rows = tile(t);
    const Truth answer = truth.yes() ? truth : ask(rows, range.first, range.last);
    if (answer.no()) continue;
    (answer.yes() ? counts.full : counts.partial) += 1;
    if (!keys.loaded) {
      if (!truth.yes()) clip(keys);
      if (keys.first + keys.hidden_first == keys.last) return;
      load(keys);
    }
    const KeyTile seen = answer.yes() ? keys : seen_by(rows, keys);
    if (seen.first < seen.last) fold(rows, seen, answer, next);
  }
}

template <class F>
void Block<F>::score_keys(const TileOfRows& rows, const KeyTile& tile, Prefetcher& next) const {
  const int head_dim = job_.geometry.head_dim;
  const char* query =
      scratch_.packed_query + std::size_t(rows.index) * kernel_.packed_query_bytes(head_dim);
  const F scale = F(job_.geometry.scale);
  if (kernel_.packed_key_bytes(head_dim) != 0 || next.is_idle()) {
    kernel_.scores(query, tile.keys, scratch_.packed_key, scale, scratch_.scores);
    return next.step();
  }
  const std::int64_t row_bytes = tile.keys.row_stride * bytes_of(kernel_.element());
  for (int key = 0; key < tile.keys.rows; key += slice_keys) {
    TileRows slice = tile.keys;
    slice.data = static_cast<const char*>(tile.keys.data) + key * row_bytes;
    slice.rows = std::min(slice_keys, tile.keys.rows - key);
    kernel_.scores(query, slice, nullptr, scale, scratch_.scores + key * kernel_.lanes());
    next.step();
  }
}

/// Rows of few keys have all of them in tiles that a mask cuts, or in short ones: their rounded
/// weights would break the accuracy rule (docs/numerics.md).
template <class F> WeightParts Block<F>::weight_parts(const KeyTile& tile, Truth truth) const {
  const int few = planner::exact_weights_below_keys(job_.geometry.value_dim);
  return truth.yes() && tile.last - tile.first >= few ? WeightParts::one : WeightParts::two;
}

template <class F> void Block<F>::fold(const TileOfRows& rows, const KeyTile& tile, Truth truth,
                                       Prefetcher& next) const {
  const RowState<F> state = state_.tile(rows.index);
  score_keys(rows, tile, next);
  change_scores(rows, tile);
  if (!truth.yes()) hide(rows, tile);
  kernel_.absorb(scratch_.scores, tile.keys.rows, job_.geometry.value_dim, state,
                 weight_parts(tile, truth), scratch_.weights);
  next.step();
  kernel_.accumulate(scratch_.weights, tile.values, scratch_.packed_value, state.output);
}

template <class F>
score::TilePositions Block<F>::positions(const planner::RowRun& run, const KeyTile& tile) const {
  const core::Geometry& g = job_.geometry;
  return {g.query_position(item_.sequence, run.first_query),
          g.query_stride,
          run.count,
          g.key_position(item_.sequence, tile.first),
          g.key_stride,
          tile.last - tile.first,
          g.place(item_.sequence, run.query_head)};
}

template <class F> void Block<F>::change_scores(const TileOfRows& rows, const KeyTile& tile) const {
  const int lanes = kernel_.lanes();
  if (job_.options.softcap)
    soft_cap(scratch_.scores, (tile.last - tile.first) * lanes, *job_.options.softcap);
  if (job_.tensors.alibi_slopes.present()) add_alibi(rows, tile);
  if (job_.tensors.bias.present()) add_bias(rows, tile);
  if (const score::ScoreNode* node = job_.options.score.node())
    for_each_run(rows, [&](const planner::RowRun& run) {
      node->change(positions(run, tile), scratch_.scores + run.lane, lanes);
    });
}

template <class F> void Block<F>::add_alibi(const TileOfRows& rows, const KeyTile& tile) const {
  const core::Geometry& g = job_.geometry;
  const TensorView& slopes = job_.tensors.alibi_slopes;
  const int lanes = kernel_.lanes(), heads = slopes.rank() - 1;
  std::fill(scratch_.slope, scratch_.slope + lanes, F(0));
  std::fill(scratch_.distance, scratch_.distance + lanes, LaneInt<F>(0));
  for_each_run(rows, [&](const planner::RowRun& run) {
    const std::int64_t at = (heads == 1 ? item_.sequence * slopes.stride(0) : 0) +
                            run.query_head * slopes.stride(heads);
    const F slope = F(slopes.template as<float>()[at]);
    const score::TilePositions p = positions(run, tile);
    for (int r = 0; r < run.count; ++r) {
      scratch_.slope[run.lane + r] = slope;
      scratch_.distance[run.lane + r] =
          LaneInt<F>(p.key_first - (p.query_first + r * p.query_step + p.place.offset));
    }
  });
  add_linear_bias(scratch_.scores, tile.last - tile.first, lanes,
                  LinearBias<F>{scratch_.slope, scratch_.distance, g.key_stride});
}

template <class F> void Block<F>::add_bias(const TileOfRows& rows, const KeyTile& tile) const {
  for_each_run(rows, [&](const planner::RowRun& run) {
    for (int r = 0; r < run.count; ++r) add_bias_row(run, r, tile);
  });
}

template <class F>
void Block<F>::add_bias_row(const planner::RowRun& run, int row, const KeyTile& tile) const {
  const TensorView& bias = job_.tensors.bias;
  const std::int64_t at = item_.sequence * bias.stride(0) + run.query_head * bias.stride(1) +
                          (run.first_query + row) * bias.stride(2) + tile.first * bias.stride(3);
  const int keys = tile.last - tile.first, lanes = kernel_.lanes();
  const int step = bias.stride(3) == 0 ? 0 : 1;  // a bias of one key is added to all of them
  convert_row(bias.dtype(), static_cast<const char*>(bias.data()) + at * bytes_of(bias.dtype()),
              dtype_of_type<F>::value, scratch_.row, step == 0 ? 1 : keys, 1.0f);
  F* score = scratch_.scores + run.lane + row;
  for (int key = 0; key < keys; ++key) score[key * lanes] += scratch_.row[key * step];
}

template <class F> void Block<F>::hide(const TileOfRows& rows, const KeyTile& tile) const {
  KeyTile rest = tile;
  rest.first = shown_to_all(rows, tile.first, tile.last);
  if (rest.first == rest.last) return;
  F* scores = scratch_.scores + (rest.first - tile.first) * kernel_.lanes();
  for_each_run(rows, [&](const planner::RowRun& run) { hide_run(run, rest, scores + run.lane); });
}

template <class F>
void Block<F>::hide_run(const planner::RowRun& run, const KeyTile& tile, F* scores) const {
  const score::MaskNode& mask = *job_.options.mask.node();
  const score::TilePositions p = positions(run, tile);
  const Truth truth = mask.classify(score::queries_of(p), score::keys_of(p), p.place);
  if (truth.yes()) return;
  const int lanes = kernel_.lanes();
  const F hidden = -std::numeric_limits<F>::infinity();
  if (!truth.maybe()) {
    for (int key = 0; key < p.keys; ++key, scores += lanes)
      std::fill(scores, scores + run.count, hidden);
    return;
  }
  unsigned char* flags = scratch_.flags + run.lane;
  mask.keep(p, flags, lanes);
  for (int key = 0; key < p.keys; ++key, scores += lanes, flags += lanes)
    for (int r = 0; r < run.count; ++r) scores[r] = flags[r] != 0 ? scores[r] : hidden;
}

template class Block<float>;
template class Block<double>;

}  // namespace tilefold::cpu
