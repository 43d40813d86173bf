// Draws expressions, and says what they are worth by a second, slower way: element by element, from
// the tree as written, in arithmetic of its own.
#pragma once

#include "score/program/expression_node.hpp"
#include "support/random.hpp"
#include "support/tensor_memory.hpp"
#include "tilefold/expression.hpp"

namespace tilefold::testing {

/// Scalars and side tensors that drawn expressions read. Tensors of every shape in use: by head, by
/// key, by (batch, key), by (query, key), of truths, words of bits, reals with and without NaN.
class FormulaMaterial {
 public:
  /// Tensors reach `queries` and `keys` positions, `batch` sequences and `heads` query heads; large
  /// ones share an axis. They lie in `memory`, or in the material's own.
  FormulaMaterial(Random& random, int batch, int heads, int queries, int keys,
                  TensorMemory& memory);
  FormulaMaterial(Random& random, int batch, int heads, int queries, int keys)
      : FormulaMaterial(random, batch, heads, queries, keys, own_memory_) {}
  FormulaMaterial(const FormulaMaterial&) = delete;
  FormulaMaterial& operator=(const FormulaMaterial&) = delete;
  const Names& names() const { return names_; }

 private:
  TensorMemory own_memory_;
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

/// A change of the score that is continuous in it, changes it by no more than a few units or
/// factors, and hides no key: rounding moves it little, whatever it reads at positions.
Expression draw_steady_change(const ExpressionDraw& from);

bool reads_batch(const Expression& expression);

/// A sequence that a FormulaMaterial of these extents reaches; two query heads share a KV head.
score::Place draw_place(Random& random, int batch, int heads, int queries, int keys);

/// One element's value: truths are 0 or 1. F is float or double.
template <class F> struct ElementOracle {
  int q, k;
  score::Place place;
  F score = 0;
  double operator()(const Expression& expression) const;
};

}  // namespace tilefold::testing
