// A program as the instructions that include/tilefold/score/interpreter.hpp reads: in an order that
// keeps few values alive, each in a place that a dead one left.
#pragma once

#include <optional>
#include <vector>

#include "score/program/program.hpp"
#include "tilefold/score/interpreter.hpp"

namespace tilefold::score {

/// Scalars stand in it with the values that they have now; side tensors are numbered in the order
/// of the program's, integers and reals apart. Empty where more than Instruction::most_values
/// values are alive at a time. Programs of equal nodes give equally many instructions.
std::optional<std::vector<Instruction>> instructions_of(const ScoreProgram& program);

}  // namespace tilefold::score
