// Whole ranges of tiles by the mask's interval answer, border tiles pair by pair.
#include "bench/visible_pairs.hpp"

#include <algorithm>
#include <array>

#include "plan/row_runs.hpp"
#include "plan/tile_walk.hpp"

namespace tilefold::bench {

namespace {

constexpr int rows = score::max_tile_queries, keys = score::max_tile_keys;

std::int64_t count_tile(const core::Geometry& g, const score::MaskNode& mask, int sequence,
                        int first_row, int first_key) {
  const core::Sequence& s = g.sequences[std::size_t(sequence)];
  const score::TilePositions tile{g.query_position(sequence, first_row),
                                  g.query_stride,
                                  std::min(rows, s.query_length - first_row),
                                  g.key_position(sequence, first_key),
                                  g.key_stride,
                                  std::min(keys, s.key_length - first_key),
                                  g.place(sequence, 0)};
  std::array<unsigned char, std::size_t(rows) * keys> flags;
  mask.keep(tile, flags.data(), rows);
  std::int64_t count = 0;
  for (int c = 0; c < tile.keys; ++c)
    for (int r = 0; r < tile.queries; ++r) count += flags[std::size_t(c * rows + r)];
  return count;
}

std::int64_t count_rows(const core::Geometry& g, const score::MaskNode& mask, int sequence,
                        int first_row) {
  const core::Sequence& s = g.sequences[std::size_t(sequence)];
  const int last_row = std::min(first_row + rows, s.query_length);
  const auto end = [&](int tile) { return std::min(tile * keys, s.key_length); };
  std::int64_t count = 0;
  planner::walk_tiles(
      0, (s.key_length + keys - 1) / keys,
      [&](int first, int last) {
        return planner::answer(g, &mask, sequence, 0, first_row, last_row, first * keys, end(last));
      },
      [&](int first, int last, score::Truth answer) {
        if (answer.yes())
          count += std::int64_t(last_row - first_row) * (end(last) - first * keys);
        else
          count += count_tile(g, mask, sequence, first_row, first * keys);
      });
  return count;
}

}  // namespace

double visible_pairs(const core::Geometry& geometry, const Mask& mask) {
  double count = 0;
  for (int b = 0; b < geometry.batch; ++b) {
    const core::Sequence& s = geometry.sequences[std::size_t(b)];
    if (mask.node() == nullptr) {
      count += double(s.query_length) * s.key_length;
      continue;
    }
    for (int row = 0; row < s.query_length; row += rows)
      count += double(count_rows(geometry, *mask.node(), b, row));
  }
  return count * geometry.query_heads;
}

double visible_flops(const core::Geometry& geometry, const Mask& mask) {
  return 2.0 * (geometry.head_dim + geometry.value_dim) * visible_pairs(geometry, mask);
}

}  // namespace tilefold::bench
