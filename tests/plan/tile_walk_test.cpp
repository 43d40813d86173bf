// The walk over key tiles: who is visited, and what it costs to find out.
#include "plan/tile_walk.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tilefold::planner {
namespace {

using score::Truth;

struct Walk {
  std::vector<int> visited;
  int questions = 0;
};

/// Tiles [0, tiles) of which [first, last) are seen, the two at its borders in part.
Walk walk(int tiles, int first, int last) {
  Walk walk;
  walk_tiles(
      0, tiles,
      [&](int from, int to) -> Truth {
        ++walk.questions;
        return Truth::of(from > first && to < last, from < last && first < to);
      },
      [&](int from, int to, Truth) {
        for (int tile = from; tile < to; ++tile) walk.visited.push_back(tile);
      });
  return walk;
}

TEST(TileWalk, VisitsWhatIsSeenOnceAndInOrder) {
  for (int tiles = 0; tiles < 20; ++tiles)
    for (int first = 0; first <= tiles; ++first)
      for (int last = first; last <= tiles; ++last) {
        std::vector<int> expected;
        for (int tile = first; tile < last; ++tile) expected.push_back(tile);
        EXPECT_EQ(walk(tiles, first, last).visited, expected)
            << tiles << " tiles, seen " << first << " to " << last;
      }
}

// A loop that steps over hidden tiles asks about each of them.
TEST(TileWalk, AHiddenStretchCostsOneQuestionAndNotOneATile) {
  EXPECT_EQ(walk(1 << 20, 0, 0).questions, 1);
  // A window of 4 of a million tiles: 2 a visited tile, 2 log2(tiles) a border.
  EXPECT_LE(walk(1 << 20, 700000, 700004).questions, 2 * 4 + 2 * 2 * 20);
}

}  // namespace
}  // namespace tilefold::planner
