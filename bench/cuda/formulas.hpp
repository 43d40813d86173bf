// The formulas that `tilefold bench forward --set formulas` measures, and their kernels' types.
#pragma once

#include <span>
#include <string>

#include "tilefold/formula.hpp"

namespace tilefold::bench {

/// As score::Causal, for which there is a built-in kernel.
struct CausalFormula {
  template <class N> TILEFOLD_HD auto keep(N q, N k, score::Place at) const {
    return k <= q + N(at.offset);
  }
};
using CausalWindow = score::And<score::Causal, score::Window>;
using CausalDocuments = score::And<score::Causal, score::Document>;

struct NamedFormula {
  const char* name;
  Mask mask;
  ScoreChange score;
};

/// "causal", "window", "documents", "relative", "alibi", "softcap". Their side tensors live as long
/// as the program and reach 16384 positions and 32 heads: 32 documents, cut at random
/// places (the seed is fixed), a bias of distances up to 512.
/// Names that begin with "text " are of text_formula_names(): formulas built at run time.
NamedFormula named_formula(const std::string& name, int length);
std::span<const char* const> formula_names();
/// Of the set "run-time": causal, a window of 1024, ALiBi, softcap 30, 32 documents, a prefix of a
/// quarter, a quarter of all blocks of 128 x 128, a tree of 64 drafts; the patterns of
/// bench/peers/flex_attention.py.
std::span<const char* const> text_formula_names();

/// Tiles of 128 queries by 128 keys that a query of the tile sees a key of.
long long visible_tiles(const Mask& mask, int length);

}  // namespace tilefold::bench
