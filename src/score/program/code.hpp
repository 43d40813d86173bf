// A program as C++: a functor of include/tilefold/score/, which NVRTC and any other compiler reads.
#pragma once

#include "score/code_source.hpp"
#include "score/program/bound_program.hpp"

namespace tilefold::score {

/// A functor with keep() for a mask, with change() for a score change. Equal programs give equal
/// text: names of scalars and side tensors are not in it, their values neither.
FormulaCode code_of_program(const ScoreProgram& program, Purpose purpose);

/// The bytes of that functor: side tensors, then scalars, each in the order of its slot.
void write_program_arguments(const BoundProgram& program, void* bytes, const DeviceCopies& tensors);

}  // namespace tilefold::score
