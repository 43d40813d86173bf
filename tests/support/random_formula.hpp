// Random masks and score changes: built-ins, functors, lambdas, formulas built at run time and
// their compositions.
#pragma once

#include "support/problem_generator.hpp"
#include "support/random.hpp"
#include "tilefold/formula.hpp"

namespace tilefold::testing {

/// What a drawn formula may depend on.
struct FormulaExtent {
  int sequences = 1, query_heads = 1;
  int query_rows = 1, key_rows = 1;   ///< the largest of the sequences
  int query_positions = 1;            ///< one past the largest query position
  int key_positions = 1;              ///< one past the largest key position
  bool positions_are_indices = true;  ///< false: only formulas that read no tensor at positions
  FormulaParts parts = FormulaParts::any;
};

/// Formulas of one form; for MaskForm::any_range none or causal.
Mask mask_of_form(MaskForm form, Random& random, const FormulaExtent& extent, RandomProblem& owner);
ScoreChange change_of_form(ScoreForm form, Random& random, const FormulaExtent& extent,
                           RandomProblem& owner);

Mask random_mask(Random& random, const FormulaExtent& extent, RandomProblem& owner);

/// Never hides a key and keeps scores of moderate size moderate.
ScoreChange random_score_change(Random& random, const FormulaExtent& extent, RandomProblem& owner);

}  // namespace tilefold::testing
