// Draws expressions, and says what they are worth by a second, slower way: element by element, from
// the tree as written, in arithmetic of its own.
#pragma once

#include <memory>
#include <vector>

#include "score/program/expression_node.hpp"
#include "support/random.hpp"
#include "tilefold/expression.hpp"

namespace tilefold::testing {

/// Scalars and side tensors that drawn expressions read. Tensors of every shape in use: by head, by
/// key, by (batch, key), by (query, key), of truths, words of bits, reals with and without NaN.
class FormulaMaterial {
 public:
  /// Tensors reach `queries` and `keys` positions, `batch` sequences and `heads` query heads.
  FormulaMaterial(Random& random, int batch, int heads, int queries, int keys);
  const Names& names() const { return names_; }

 private:
  TensorView integers(Random& random, const Extents& shape, int low, int high);
  TensorView reals(Random& random, const Extents& shape);
  std::vector<std::unique_ptr<int[]>> int_memory_;
  std::vector<std::unique_ptr<float[]>> float_memory_;
  std::vector<std::unique_ptr<bool[]>> truth_memory_;
  Names names_;
};

struct ExpressionDraw {
  Random& random;
  const Names& names;
  bool may_read_score = false;
  bool smooth = false;  // only what has a derivative everywhere
};
/// A tree of at most so many levels.
Expression draw(const ExpressionDraw& from, score::Kind kind, int levels);

/// One element's value: truths are 0 or 1. F is float or double.
template <class F> struct ElementOracle {
  int q, k;
  score::Place place;
  F score = 0;
  double operator()(const Expression& expression) const;
};

}  // namespace tilefold::testing
