// Masks: which keys a query may see. Each is a struct with one template, read with int, Position or
// Interval, and its parameters are data: new values never recompile.
//
//   struct Mine { template <class N> TILEFOLD_HD auto keep(N q, N k, Place at) const {
//     return k <= q + N(at.offset); } };
#pragma once

#include "tilefold/score/interval.hpp"
#include "tilefold/score/lookup.hpp"
#include "tilefold/score/place.hpp"
#include "tilefold/score/position.hpp"

namespace tilefold::score {

/// Key k is visible to query q when k <= q + offset: the last query sees the last key.
struct Causal {
  template <class N> TILEFOLD_HD auto keep(N q, N k, Place at) const {
    return k <= q + N(at.offset);
  }
};

/// q + offset - left <= k <= q + offset + right, both ends included; a negative side is unbounded.
/// The W latest tokens, itself included: left = W - 1.
struct Window {
  int left, right;
  template <class N> TILEFOLD_HD auto keep(N q, N k, Place at) const {
    const auto behind = q + N(at.offset) - k;  // one use of each variable keeps the interval sharp
    const auto always = N(0) <= N(0);
    return (left < 0 ? always : behind <= N(left)) && (right < 0 ? always : N(-right) <= behind);
  }
};

/// The first keys of a sequence are visible to every query of it; joined with causal by ||.
struct Prefix {
  Lookup lengths;  // [batch, 1]
  template <class Visit> TILEFOLD_HOST void side_tensors(const Visit& visit) { visit(lengths); }
  template <class N> TILEFOLD_HD auto keep(N, N k, Place at) const {
    return k < N(lengths.at(at.batch, 0));
  }
};

/// A query sees the keys of its own document: id[q + offset] == id[k].
struct Document {
  Lookup ids;  // [batch, key positions]
  template <class Visit> TILEFOLD_HOST void side_tensors(const Visit& visit) { visit(ids); }
  template <class N> TILEFOLD_HD auto keep(N q, N k, Place at) const {
    return ids.at(at.batch, q + N(at.offset)) == ids.at(at.batch, k);
  }
};

/// Keeps every key. As an interval it is sure, which `q <= q` would not be.
struct Everything {
  template <class N> TILEFOLD_HD auto keep(N, N, Place) const { return N(0) <= N(0); }
};

}  // namespace tilefold::score
