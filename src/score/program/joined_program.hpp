// Masks that are made of programs and of built-ins, as one program.
#pragma once

#include <optional>
#include <vector>

#include "score/program/program.hpp"

namespace tilefold::score {

/// What all of the masks together keep; at least one. Empty where a part is neither a program nor a
/// built-in: code that no list of operations says. It may hold more scalars and side tensors than a
/// program that a user writes.
std::optional<ScoreProgram> joined_program(const std::vector<const MaskNode*>& masks);

}  // namespace tilefold::score
