// Which key tiles a warpgroup computes: what it sees, without a gap, over all slots of a query
// tile.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "cuda/kernels/sm90/forward/own_tiles.hpp"

namespace tilefold::cuda::sm90 {
namespace {

struct Chunk {
  unsigned live, seen, whole;
};

/// Chunks of a query tile, each with a live tile; `density` of live tiles are seen.
std::vector<Chunk> drawn(std::mt19937& random, double density) {
  std::vector<Chunk> chunks(1 + random() % 4);
  std::bernoulli_distribution seen(density);
  for (Chunk& c : chunks) {
    const auto word = [&] { return unsigned(random()); };
    c = {(word() & word()) | 1u << word() % 32, 0, 0};
    for (unsigned bit = 1; bit != 0; bit <<= 1)
      if ((c.live & bit) != 0 && seen(random)) c.seen |= bit;
    c.whole = c.seen & word();
  }
  return chunks;
}

/// One character a live tile, in the order of the walk: computed whole, cut, or passed by.
std::string walked(const std::vector<Chunk>& chunks) {
  std::string walk;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const auto [live, seen, whole] = chunks[i];
    const OwnTiles own = own_tiles(live, seen, whole, i != 0, i + 1 != chunks.size());
    EXPECT_EQ(own.live & ~live, 0u);
    EXPECT_EQ(own.partial & ~own.live, 0u);
    EXPECT_EQ(seen & ~own.live, 0u) << "a tile that is seen is passed by";
    EXPECT_EQ(own.partial, own.live & ~whole);
    for (unsigned bit = 1; bit != 0; bit <<= 1)
      if ((live & bit) != 0)
        walk += (own.live & bit) == 0 ? '.' : (own.partial & bit) != 0 ? 'c' : 'w';
    const unsigned before = tiles_before(own.live, live), after = tiles_after(own.live, live);
    if (own.live == 0) {
      EXPECT_EQ(before, live);
      EXPECT_EQ(after, live);
    } else {
      EXPECT_EQ(before | own.live | after, live) << "a gap between tiles";
      EXPECT_LT(before, own.live & (0u - own.live)) << "in the order of the walk";
      EXPECT_TRUE(after == 0 || (after & (0u - after)) > own.live);
    }
  }
  return walk;
}

TEST(OwnTiles, AreWhatIsSeenWithoutAGap) {
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    const std::vector<Chunk> chunks = drawn(random, (i % 5) / 4.0);
    const std::string walk = walked(chunks);
    const std::size_t first = walk.find_first_not_of('.'), last = walk.find_last_not_of('.');
    const std::size_t first_slot = std::size_t(__builtin_popcount(chunks[0].live));
    if (first == std::string::npos) {
      EXPECT_EQ(chunks.size(), 1u) << "only a query tile of one slot may hold nothing";
      continue;
    }
    EXPECT_LT(first, first_slot) << "begins in the first slot: " << walk;
    EXPECT_EQ(walk.substr(first, last - first).find('.'), std::string::npos) << walk;
    const std::size_t last_slot = walk.size() - std::size_t(__builtin_popcount(chunks.back().live));
    if (chunks.size() > 1) {
      EXPECT_GE(last + 1, last_slot) << "passes by in the last slot alone";
    }
  }
}

TEST(OwnTiles, OfOneSlotReachFromTheFirstSeenToTheLast) {
  EXPECT_EQ(walked({{0b1111, 0b0110, 0b0100}}), ".cw.");
  EXPECT_EQ(walked({{0b1111, 0b1001, 0b1001}}), "wccw");
  EXPECT_EQ(walked({{0b1011, 0b1000, 0}}), "..c");
  EXPECT_EQ(walked({{0x80000001u, 0, 0}}), "..");
}

TEST(OwnTiles, OfSeveralSlotsBeginInTheFirstAndEndInTheLast) {
  EXPECT_EQ(walked({{0b11, 0, 0}, {0b11, 0, 0}}), ".c..");
  EXPECT_EQ(walked({{0b11, 0b01, 0b01}, {0b11, 0, 0}, {0b111, 0b010, 0b010}}), "wccccw.");
}

}  // namespace
}  // namespace tilefold::cuda::sm90
