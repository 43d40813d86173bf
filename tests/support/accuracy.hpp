// The accuracy rule: how far a result may lie from float64, measured by what a framework's
// materialised attention gets wrong on the same inputs.
//
//   max |x - ref| <= factor * max |eager - ref| + eps * max |ref|
//
// for each sequence and head, over the finite elements of the reference. Where the reference is not
// finite, the result must not be finite either, of any kind.
#pragma once

#include <string>
#include <vector>

#include "core/geometry.hpp"
#include "reference/attention.hpp"

namespace tilefold::testing {

struct AccuracyRule {
  double eager_factor = 2;
  double epsilon = 1e-5;
  /// The least that max |ref| counts as: an absolute error of lse is a relative error of the
  /// denominator, so lse near 0 is allowed what lse near 1 is.
  double smallest_size = 0;
  /// Sequences in which a non-finite result is no fault where the reference is finite: a NaN in a
  /// value that one row sees may reach the sequence's other rows. Empty: none.
  std::vector<bool> may_spread_nan;

  /// eps 1e-12 for f64 inputs; fp8 queries may use 4 in place of 2.
  static AccuracyRule of_out(const core::Geometry& geometry);
  static AccuracyRule of_lse(const core::Geometry& geometry);
};

/// The element that comes closest to breaking the rule, or breaks it most.
struct Deviation {
  int sequence = 0, head = 0, row = 0, column = 0;
  double got = 0, want = 0;
  double allowed = 0;      ///< largest |got - want| for this sequence and head
  double ratio = 0;        ///< |got - want| / allowed; infinite for a wrong kind of number
  double eager_ratio = 0;  ///< (|got - want| - eps * max |want|) / max |eager - want| for this head
  bool within() const { return ratio <= 1; }
  /// "sequence 0 head 2 row 7 column 3: got 0.5, want 0.25, allowed difference 0.001"
  std::string text() const;
};

Deviation worst_deviation(const reference::Table& got, const reference::Table& want,
                          const reference::Table& eager, const AccuracyRule& rule);

/// The rows that belong to sequences, out of a problem's out and lse.
reference::Table table_of_out(const core::Geometry& geometry, const TensorView& out);
reference::Table table_of_lse(const core::Geometry& geometry, const TensorView& lse);

/// The rows that belong to nobody must hold `expected` (0 in out, minus infinity in lse). Gives the
/// place of the first that does not, or an empty text.
std::string check_ownerless_rows(const core::Geometry& geometry, const TensorView& out,
                                 const TensorView& lse);

}  // namespace tilefold::testing
