// A mask that no library has, written once for CPU and GPU.
#pragma once

#include "tilefold/score/compose.hpp"

/// Of the keys up to a query's own, those a multiple of `step` behind it.
struct Dilated {
  int step;
  template <class N> TILEFOLD_HD auto keep(N q, N k, tilefold::score::Place at) const {
    const auto behind = q + N(at.offset) - k;
    return N(0) <= behind && tilefold::score::floor_mod(behind, step) == N(0);
  }
};
