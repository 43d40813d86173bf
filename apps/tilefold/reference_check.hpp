// How far a result lies from float64, measured on some of its rows.
#pragma once

#include <cstdint>
#include <functional>

#include "core/geometry.hpp"

namespace tilefold::cli {

/// Over the rows that were compared: largest absolute differences from the float64 reference.
struct ReferenceCheck {
  std::int64_t rows = 0, of_rows = 0;  // (sequence, query) pairs; every head of each is compared
  double out_error = 0, out_eager_error = 0;
  double lse_error = 0, lse_eager_error = 0;
  /// Outputs compared that are no finite number, in float64 either.
  std::int64_t not_finite = 0;
  double worst_ratio = 0;  // of the difference that the accuracy rule allows, by sequence and head
  bool within() const { return worst_ratio <= 1; }
};

/// Compares at most `most_rows` rows, evenly spaced, of problem.tensors.out and lse. The eager
/// version is the framework's attention in the query's own precision.
ReferenceCheck check_against_reference(const Problem& problem, std::int64_t most_rows,
                                       const std::function<void(double part)>& progress);

}  // namespace tilefold::cli
