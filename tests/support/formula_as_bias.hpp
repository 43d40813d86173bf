// Formulas that are code, as numbers: for backends that take no code.
#pragma once

#include "support/handed_problem.hpp"

namespace tilefold::testing {

/// Moves a case's code_mask and code_score, where it has any, out of the options into the bias
/// tensor: 0 where the mask keeps a key, -inf where it hides it, and what the score change adds to
/// a score. Built-in masks stay masks. True where there was code.
/// Throws Error(conflicting_argument) where the problem has a bias of its own.
bool give_formulas_as_bias(CaseProblem& drawn);

}  // namespace tilefold::testing
