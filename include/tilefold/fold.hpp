// The one fold: how attention over parts of the keys becomes attention over all of them.
//
// A part is (max, sum, O): the largest score, the sum of exp(score - max), and the sum of
// exp(score - max) * v. Tiles of one kernel, splits of a long row, prefixes, chunks and ring steps
// are all joined by these few lines, on the host and on the device.
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::fold {

/// Largest score and the sum of exp(score - max) of a part. The empty part is {-inf, 0}.
template <class F> struct Part {
  F max, sum;
  TILEFOLD_HD static Part empty() { return {-score::infinity<F>(), F(0)}; }
  TILEFOLD_HD bool is_empty() const { return max == -score::infinity<F>(); }
};

/// What each side's O is multiplied by when two parts join.
template <class F> struct Weights { F left, right; };

/// The factor from a part's own maximum to a larger one. (-inf) - (-inf) would be NaN: an empty
/// part weighs 0 whatever it joins.
template <class F> TILEFOLD_HD F weight(F part_max, F joint_max) {
  return part_max == -score::infinity<F>() ? F(0) : score::exp(part_max - joint_max);
}

/// Joins two parts; O = left.O * weights.left + right.O * weights.right. Commutative; associative
/// up to rounding; the empty part is the identity, and two empty parts make an empty one.
template <class F> TILEFOLD_HD Part<F> join(Part<F> left, Part<F> right, Weights<F>& weights) {
  // A NaN maximum must survive: `a < b ? b : a` alone would drop it on one side.
  const F max = left.max != left.max     ? left.max
                : right.max != right.max ? right.max
                                         : score::larger(left.max, right.max);
  weights = {weight(left.max, max), weight(right.max, max)};
  return {max, left.sum * weights.left + right.sum * weights.right};
}

/// Natural log of the denominator: -inf for the empty part.
template <class F> TILEFOLD_HD F log_sum(Part<F> part) {
  return part.is_empty() ? part.max : part.max + score::log(part.sum);
}

/// The part that a finished (O, lse) stands for: O is its normalised sum, so sum = 1.
template <class F> TILEFOLD_HD Part<F> from_lse(F lse) {
  return lse == -score::infinity<F>() ? Part<F>::empty() : Part<F>{lse, F(1)};
}

}  // namespace tilefold::fold
