// Formulas that say no more than a causal mask or a window does: backends then need no code of
// theirs.
#pragma once

#include "score/program/program.hpp"

namespace tilefold::score {

/// Kind::causal or Kind::window for a mask that is a conjunction of bounds on k - (q + off) by
/// constants; else Kind::code.
MaskDescription description_of(const ScoreProgram& mask);

}  // namespace tilefold::score
