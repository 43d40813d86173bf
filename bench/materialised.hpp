// Attention the way a framework writes it down: the whole matrix of scores in memory, in float32.
//
//   bench::materialised(problem);     // writes problem.tensors.out; 4 Hq Sq Sk bytes at a time
//
// The honest other side of a comparison: its matrix products are blocked and vectorised, it uses
// the same threads, and it computes every option that tilefold computes. What it does not do is
// skip or fold.
#pragma once

#include <cstdint>

#include "core/geometry.hpp"
#include "tilefold/problem.hpp"

namespace tilefold::bench {

/// Bytes of the largest sequence's matrix of scores; sequences are computed one after the other.
double score_bytes(const core::Geometry& geometry);

/// Computes out and, where present, lse. float64 inputs are computed in float32 too. Throws
/// Error(out_of_memory) where the scores would not fit the machine's available memory.
void materialised(const Problem& problem);

}  // namespace tilefold::bench
