#include "support/formula_as_bias.hpp"

#include <algorithm>
#include <limits>

#include "core/geometry.hpp"
#include "tilefold/error.hpp"

namespace tilefold::testing {

namespace {

/// One pair of a query and a key.
score::TilePositions pair_at(const core::Geometry& g, int b, int head, int q, int k) {
  return {g.query_position(b, q), 1, 1, g.key_position(b, k), 1, 1, g.place(b, head)};
}

double number_at(const CaseProblem& drawn, const score::TilePositions& at) {
  unsigned char keeps = 1;
  double added = 0;
  if (drawn.code_mask.node() != nullptr) drawn.code_mask.node()->keep(at, &keeps, 1);
  if (drawn.code_score.node() != nullptr) drawn.code_score.node()->change(at, &added, 1);
  return keeps != 0 ? added : -std::numeric_limits<double>::infinity();
}

}  // namespace

bool give_formulas_as_bias(CaseProblem& drawn) {
  Problem& problem = drawn.problem;
  if (drawn.code_mask.node() == nullptr && drawn.code_score.node() == nullptr) return false;
  if (problem.tensors.bias.present())
    throw Error(ErrorCode::conflicting_argument, "a case has a formula that is code and a bias");
  problem.options.mask = drawn.data_mask;
  problem.options.score = {};
  const core::Geometry g = core::resolve(problem);
  const DType type = problem.tensors.query.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const std::int64_t rows = g.max_query_length, keys = g.max_key_length;
  const OutputView bias = drawn.memory.allocate(type, {g.batch, g.query_heads, rows, keys});
  for (int b = 0; b < g.batch; ++b)
    for (int head = 0; head < g.query_heads; ++head)
      for (int q = 0; q < g.sequences[std::size_t(b)].query_length; ++q)
        for (int k = 0; k < g.sequences[std::size_t(b)].key_length; ++k)
          store(bias, ((std::int64_t(b) * g.query_heads + head) * rows + q) * keys + k,
                number_at(drawn, pair_at(g, b, head, q, k)));
  problem.tensors.bias = bias;
  drawn.code_mask = {};
  drawn.code_score = {};
  return true;
}

}  // namespace tilefold::testing
