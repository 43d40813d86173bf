// How many (query, key) pairs a mask leaves: what FLOP counts are made of.
#pragma once

#include "core/geometry.hpp"

namespace tilefold::bench {

/// Over all query heads, exactly. The mask is asked for query head 0 only: masks that look at the
/// head are counted as that one.
double visible_pairs(const core::Geometry& geometry, const Mask& mask);

/// 2 (Dqk + Dv) FLOPs a visible pair.
double visible_flops(const core::Geometry& geometry, const Mask& mask);

}  // namespace tilefold::bench
