// Which key tiles of a query tile one warpgroup computes, where a formula tells what its rows see.
// Bit i of a set is tile last_tile - 1 - i of an assignment: walked from the lowest bit on.
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::cuda::sm90 {

/// Which of an assignment's live tiles a warpgroup computes, and which of those are cut by the
/// mask. It passes the others by.
struct OwnTiles {
  unsigned live, partial;
};

/// Of a warpgroup that sees the tiles `seen` of `live` and every key of `whole`. V of a tile is
/// multiplied under the next tile, and after the last one a warpgroup has nothing more to do. So it
/// computes what lies between its tiles too, and where the query tile `continues` from another slot
/// or holds `more` in the next one, what lies between those and these; it begins in the first slot.
TILEFOLD_HD constexpr OwnTiles own_tiles(unsigned live, unsigned seen, unsigned whole,
                                         bool continues, bool more) {
  if (seen == 0 && !more) return {0, 0};
  unsigned to_last = more ? live : seen;  // every bit up to its highest
  for (unsigned shift = 1; shift < 32; shift *= 2) to_last |= to_last >> shift;
  unsigned from = continues ? live : seen;
  if (from == 0) from = to_last ^ to_last >> 1;  // the last tile alone
  const unsigned own = live & to_last & (0u - (from & (0u - from)));
  return {own, own & ~whole};
}

/// Live tiles that are walked before the first of `own`; all, where there is none.
TILEFOLD_HD constexpr unsigned tiles_before(unsigned own, unsigned live) {
  return own == 0 ? live : live & ((own & (0u - own)) - 1u);
}
/// And after the last of `own`; all, where there is none.
TILEFOLD_HD constexpr unsigned tiles_after(unsigned own, unsigned live) {
  for (unsigned shift = 1; shift < 32; shift *= 2) own |= own >> shift;
  return live & ~own;
}

}  // namespace tilefold::cuda::sm90
