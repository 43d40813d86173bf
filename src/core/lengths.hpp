// Per-sequence lengths and page lists, read from host arrays and checked.
#pragma once

#include "core/geometry.hpp"

namespace tilefold::core {

/// Reads everything that Geometry::sequences holds of sequence `index` and checks it: order,
/// bounds, positions. Throws Error(length_invalid, ...) naming the argument. Allocates nothing.
Sequence read_sequence(const Geometry& geometry, const Tensors& tensors, const Options& options,
                       int index);

/// Refuses table entries outside the pool in positions that some row may see.
void check_pages(const Geometry& geometry, const Tensors& tensors, const Options& options,
                 int sequence);

}  // namespace tilefold::core
