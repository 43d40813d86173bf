// Programs as the masks and score changes of a problem.
#include "score/program/formula_nodes.hpp"

#include "score/program/evaluate.hpp"

namespace tilefold::score {

void ProgramMask::keep(const TilePositions& tile, unsigned char* flags, int row) const {
  evaluate_mask(program_, tile, flags, row);
}
Truth ProgramMask::classify(Interval queries, Interval keys, const Place& place) const {
  return program_.classify(queries, keys, place);
}
std::string ProgramMask::text() const { return program_.program().text(); }
void ProgramMask::name_blunt_terms(const TilePositions& tile, const NameTerm& name) const {
  for (const int term : blunt_terms(program_, tile)) name(program_.program().text_of(term));
}
void ProgramMask::require_fit(const Extent& extent) const { program_.require_fit(extent); }

void ProgramChange::change(const TilePositions& tile, float* scores, int row) const {
  evaluate_change(program_, tile, scores, row);
}
void ProgramChange::change(const TilePositions& tile, double* scores, int row) const {
  evaluate_change(program_, tile, scores, row);
}
void ProgramChange::differentiate(const TilePositions& tile, double* scores, double* slopes,
                                  int row) const {
  evaluate_derivative(program_, tile, scores, slopes, row);
}
std::string ProgramChange::text() const { return program_.program().text(); }
void ProgramChange::require_fit(const Extent& extent) const { program_.require_fit(extent); }

}  // namespace tilefold::score

namespace tilefold {

Mask mask(const Expression& keep) {
  return Mask(std::make_shared<score::ProgramMask>(make_program(keep, score::Purpose::mask)));
}
ScoreChange change(const Expression& score) {
  return ScoreChange(
      std::make_shared<score::ProgramChange>(make_program(score, score::Purpose::score_change)));
}

}  // namespace tilefold
