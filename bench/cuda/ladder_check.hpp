// Sampled rows of a problem in float64, on all cores: what every rung's output is compared with.
#pragma once

#include <span>
#include <vector>

#include "cuda/kernels/ladder/shape.cuh"

namespace tilefold::bench {

/// Query, key and value of one head, packed rows of head_dim numbers.
struct HostHead {
  int head_index;
  std::vector<double> query, key, value;
};

/// The rows that are compared: `count` of a head, evenly spread, first and last among them.
std::vector<int> sampled_rows(int query_length, int count);

/// One row of attention: [head_dim]. `row` counts in the head.
struct ExactRow {
  int head_index, row;
  std::vector<double> out;
};

/// Attention of the sampled rows of these heads; zeros for a row that sees no key.
std::vector<ExactRow> exact_rows(const cuda::ladder::Shape& shape, std::span<const HostHead> heads,
                                 int rows_a_head);

/// The largest difference over the rows, and the largest element of the reference.
struct Difference {
  double error = 0, reference = 0;
  /// A NaN in `got` counts as infinite.
  void take(const ExactRow& exact, std::span<const double> got);
};

}  // namespace tilefold::bench
