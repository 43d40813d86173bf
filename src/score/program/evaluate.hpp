// A program over the elements of a tile, many at once: values that only keys or only queries change
// are computed once a tile, the others a row of queries at a time.
#pragma once

#include "score/program/bound_program.hpp"
#include "tilefold/formula.hpp"

namespace tilefold::score {

/// flags[c * row + r] = 1 where query r sees key c, else 0.
void evaluate_mask(const BoundProgram& program, const TilePositions& tile, unsigned char* flags,
                   int row);
/// scores[c * row + r] becomes the changed one. A score that is -inf stays hidden.
template <class F>
void evaluate_change(const BoundProgram& program, const TilePositions& tile, F* scores, int row);
/// Besides, slopes[...] is multiplied by d(changed) / d(score); 0 where a score was hidden.
void evaluate_derivative(const BoundProgram& program, const TilePositions& tile, double* scores,
                         double* slopes, int row);

/// Nodes of a mask that are comparisons or bits, whose bound over the tile is Truth::some although
/// its elements agree.
std::vector<int> blunt_terms(const BoundProgram& program, const TilePositions& tile);

}  // namespace tilefold::score
