// Formulas that kernels of the family `any` interpret: those built at run time, from expressions or
// from text. No compiler is needed where they run.
#pragma once

#include <optional>
#include <string>

#include "cuda/kernels/any/programs.hpp"
#include "cuda/launch/formula_data.hpp"
#include "tilefold/cuda/compiled.hpp"

namespace tilefold::cuda {

/// Why no kernel can interpret the problem's formula.
std::optional<std::string> interpreter_refusal(const core::Geometry& geometry,
                                               const Problem& problem);

/// The formula's instructions and side tensors on the device, through `tensors`.
any::FormulaPrograms formula_programs(const Problem& problem, const SideTensors& tensors);

/// The mask alone, its built-in parts too, for read_lengths of kernels that have it compiled in: a
/// page that it hides needs no entry in a table on the device. None where no list of operations
/// says it.
std::optional<any::FormulaPrograms> mask_programs(const Problem& problem,
                                                  const SideTensors& tensors);

}  // namespace tilefold::cuda
