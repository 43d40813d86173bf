// Which key tiles a range of queries meets: the mask is asked about large ranges first, so a hidden
// stretch costs one question and not one a tile. The loop is bounded; nothing is stepped over.
#pragma once

#include "tilefold/score/interval.hpp"

namespace tilefold::planner {

/// Calls visit(first, last, answer) for ascending, disjoint ranges of tiles [first, last) that are
/// not hidden: `all` for ranges of any length, `some` for single tiles. ask(first, last) answers
/// for a range of tiles. At most 2 questions a visited tile plus 2 log2(tiles) a border.
template <class Ask, class Visit>
void walk_tiles(int first, int last, const Ask& ask, const Visit& visit) {
  if (first >= last) return;
  const score::Truth answer = ask(first, last);
  if (answer.no()) return;
  if (answer.yes() || last - first == 1) {
    visit(first, last, answer);
    return;
  }
  const int middle = first + (last - first) / 2;
  walk_tiles(first, middle, ask, visit);
  walk_tiles(middle, last, ask, visit);
}

}  // namespace tilefold::planner
