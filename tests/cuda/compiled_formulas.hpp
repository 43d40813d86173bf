// Formulas of a program's own, which tests/CMakeLists.txt has kernels made for.
#pragma once

#include "tilefold/score/compose.hpp"

namespace tilefold::testing {

/// A query sees every `step`-th key back from its own, and none later.
struct Dilated {
  int step;
  template <class N> TILEFOLD_HD auto keep(N q, N k, score::Place at) const {
    const auto behind = q + N(at.offset) - k;
    return N(0) <= behind && score::floor_mod(behind, step) == N(0);
  }
};

using CausalDocuments = score::And<score::Causal, score::Document>;
using CausalWindow = score::And<score::Causal, score::Window>;

}  // namespace tilefold::testing
