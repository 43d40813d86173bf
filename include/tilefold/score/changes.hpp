// Score changes: what happens to a score between the scaled dot product and the masks. Each is a
// struct with one template over the score's number type; read with Dual it yields its derivative.
//
//   struct Mine { template <class S, class N> TILEFOLD_HD S change(S s, N q, N k, Place at) const {
//     return s + S(0.5f) * real<S>(k - q); } };
//
// A change that gives minus infinity hides the key.
#pragma once

#include "tilefold/score/lookup.hpp"
#include "tilefold/score/place.hpp"
#include "tilefold/score/real.hpp"

namespace tilefold::score {

/// cap * tanh(s / cap); cap > 0, in score units.
struct SoftCap {
  double cap;
  template <class S, class N> TILEFOLD_HD S change(S s, N, N, Place) const {
    using F = typename Plain<S>::type;
    return soft_capped(s, S(F(cap)));
  }
};

/// s + slope_h * (k - (q + offset)).
struct Alibi {
  const float* slopes;     // [batch or 1, query heads]
  long long batch_stride;  // 0 where all sequences share the slopes
  template <class Visit> TILEFOLD_HOST void side_tensors(const Visit& visit) {
    visit(slopes, batch_stride == 0 ? visit.query_heads() : batch_stride * visit.batch());
  }
  template <class S, class N> TILEFOLD_HD S change(S s, N q, N k, Place at) const {
    using F = typename Plain<S>::type;
    const F slope = F(loaded(slopes + (at.batch * batch_stride + at.query_head)));
    return s + S(slope) * real<S>(k - (q + N(at.offset)));
  }
};

/// s + bias[batch, head, q, k]; a stride of 0 broadcasts an axis. Minus infinity hides the key.
struct AdditiveBias {
  const float* bias;
  long long batch_stride, head_stride, query_stride;  // keys are contiguous
  template <class S, class N> TILEFOLD_HD S change(S s, N q, N k, Place at) const {
    using F = typename Plain<S>::type;
    return s + S(F(loaded(bias + (at.batch * batch_stride + at.query_head * head_stride +
                                  index(q) * query_stride + index(k)))));
  }
  TILEFOLD_HD static long long index(int x) { return x; }
  TILEFOLD_HD static long long index(Position x) { return x.sum(); }
};

/// s + table[head, k - (q + offset)], the distance held within -reach .. reach.
struct RelativeBias {
  Table table;  // [query heads, 2 * reach + 1]
  int reach;
  template <class S, class N> TILEFOLD_HD S change(S s, N q, N k, Place at) const {
    using F = typename Plain<S>::type;
    return s + S(F(table.at(at.query_head, k - (q + N(at.offset)) + N(reach))));
  }
  template <class Visit> TILEFOLD_HOST void side_tensors(const Visit& visit) { visit(table); }
};

/// Leaves the score as it is.
struct Unchanged {
  template <class S, class N> TILEFOLD_HD S change(S s, N, N, Place) const { return s; }
};
template <class C> inline constexpr bool is_unchanged = false;
template <> inline constexpr bool is_unchanged<Unchanged> = true;

}  // namespace tilefold::score
