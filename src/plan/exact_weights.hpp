// Where weights that enter their product in 16 bits would break the accuracy rule, on every
// backend: docs/numerics.md.
#pragma once

#include <algorithm>

namespace tilefold::planner {

/// A row that sees fewer keys keeps more than 16 bits of its weights.
constexpr int exact_weights_below_keys(int value_dim) { return std::max(16, 1024 / value_dim); }

}  // namespace tilefold::planner
