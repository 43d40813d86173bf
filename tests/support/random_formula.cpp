// Draws formulas. Side tensors live in the problem's own memory.
#include "support/random_formula.hpp"

#include "support/random_program.hpp"

namespace tilefold::testing {

namespace {

struct EveryThird {
  int shift;
  template <class N> auto keep(N q, N k, score::Place) const {
    return score::floor_mod(q + k + N(shift), 3) == N(0);
  }
};
struct Checkerboard {
  int width;
  template <class N> auto keep(N q, N k, score::Place at) const {
    return score::floor_mod(score::floor_div(q + N(at.offset), width) + score::floor_div(k, width),
                            2) == N(0);
  }
};
struct Dilated {
  int reach, step;
  template <class N> auto keep(N q, N k, score::Place at) const {
    const auto behind = q + N(at.offset) - k;
    return behind >= N(0) && behind <= N(reach) && score::floor_mod(behind, step) == N(0);
  }
};
struct HeadsBeyondFirst {
  template <class N> auto keep(N q, N k, score::Place at) const {
    return k <= q + N(at.offset) && k >= N(at.query_head - at.batch);
  }
};
struct Scattered {  // indexes like a hash: intervals cannot follow
  unsigned seed;
  bool keep(int q, int k, score::Place) const {
    const unsigned h = (unsigned(q) * 2654435761u ^ unsigned(k) * 40503u ^ seed) * 2246822519u;
    return (h >> 28) < 9;
  }
};

struct Distance {
  double slope;
  template <class S, class N> S change(S s, N q, N k, score::Place at) const {
    using F = typename score::Plain<S>::type;
    return s - S(F(slope)) * score::real<S>(score::abs(q + N(at.offset) - k));
  }
};
struct Squash {
  double gain;
  template <class S, class N> S change(S s, N, N, score::Place) const {
    using F = typename score::Plain<S>::type;
    return S(F(gain)) * s / (S(F(1)) + score::abs(s));
  }
};
struct PerHead {
  template <class S, class N> S change(S s, N, N, score::Place at) const {
    using F = typename score::Plain<S>::type;
    return s * S(F(1) / F(1 + at.query_head)) + S(F(0.125) * F(at.kv_head));
  }
};

OutputView integers(RandomProblem& owner, const Extents& shape) {
  return owner.memory.allocate(DType::i32, shape);
}

Mask random_documents(Random& random, const FormulaExtent& extent, RandomProblem& owner) {
  const bool own = random.chance(0.5);
  const int rows = own ? extent.sequences : 1, n = extent.key_positions;
  const OutputView ids = integers(owner, own ? Extents{rows, n} : Extents{n});
  for (int b = 0; b < rows; ++b) {
    int id = random.between(-3, 3);
    for (int i = 0; i < n; ++i) {
      if (random.chance(random.chance(0.5) ? 0.3 : 0.02)) id = random.between(-3, 6);
      store(ids, b * std::int64_t(n) + i, id);
    }
  }
  owner.formula_reads_batch |= own;
  return documents(ids);
}

Mask random_prefix(Random& random, const FormulaExtent& extent, RandomProblem& owner) {
  if (random.chance(0.5)) return prefix(random.between(0, extent.key_rows));
  const OutputView lengths = integers(owner, {extent.sequences});
  for (int b = 0; b < extent.sequences; ++b) store(lengths, b, random.between(0, extent.key_rows));
  owner.formula_reads_batch = true;
  return prefix(lengths);
}

Mask random_window(Random& random, const FormulaExtent& extent) {
  const int n = extent.key_rows;
  const auto side = [&] { return random.chance(0.25) ? -1 : random.between(0, n); };
  const int left = random.chance(0.5) ? random.between(0, std::min(n, 8)) : side();
  return window(left, side());
}

/// A formula that `draw` makes of scalars, and of side tensors in the problem's memory.
template <class Draw> Expression expression_of(Random& random, const FormulaExtent& extent,
                                               RandomProblem& owner, const Draw& draw) {
  const FormulaMaterial material(random, extent.sequences, extent.query_heads,
                                 extent.query_positions, extent.key_positions, owner.memory);
  const Expression expression = draw(ExpressionDraw{random, material.names()});
  owner.formula_reads_batch |= reads_batch(expression);
  return expression;
}

Mask program_mask(Random& random, const FormulaExtent& extent, RandomProblem& owner) {
  return mask(expression_of(random, extent, owner, [&](const ExpressionDraw& from) {
    return draw(from, score::Kind::truth, random.between(2, 5));
  }));
}

Mask basic_mask(Random& random, const FormulaExtent& extent, RandomProblem& owner) {
  if (extent.parts == FormulaParts::everything && random.chance(0.4))
    return program_mask(random, extent, owner);
  switch (random.between(0, extent.parts == FormulaParts::built_ins ? 6 : 10)) {
    case 0:
    case 1:
    case 2: return causal();
    case 3:
    case 4: return random_window(random, extent);
    case 5: return random_prefix(random, extent, owner);
    case 6: return extent.key_rows > 0 ? random_documents(random, extent, owner) : causal();
    case 7: return mask(EveryThird{random.between(-9, 9)}, "every third");
    case 8: return mask(Checkerboard{random.between(1, 40)}, "checkerboard");
    case 9: return mask(Dilated{random.between(0, 200), random.between(1, 4)}, "dilated");
    default: break;
  }
  if (random.chance(0.3)) {
    owner.formula_reads_batch = true;
    return mask(HeadsBeyondFirst{}, "causal from the head's own key on");
  }
  return mask<Reading::elements>(Scattered{unsigned(random.bits())}, "scattered");
}

}  // namespace

Mask random_mask(Random& random, const FormulaExtent& extent, RandomProblem& owner) {
  if (random.chance(0.15)) return {};
  Mask drawn = random.chance(0.2)   ? causal() && random_window(random, extent)
               : random.chance(0.1) ? causal() || random_prefix(random, extent, owner)
                                    : basic_mask(random, extent, owner);
  while (random.chance(0.25)) {
    const Mask next = basic_mask(random, extent, owner);
    drawn = random.chance(0.5) ? drawn && next : random.chance(0.7) ? drawn || next : !drawn;
  }
  return drawn;
}

namespace {

ScoreChange alibi_change(Random& random, const FormulaExtent& extent, RandomProblem& owner) {
  const bool own = random.chance(0.4);
  const int rows = own ? extent.sequences : 1, heads = extent.query_heads;
  const OutputView slopes =
      owner.memory.allocate(DType::f32, own ? Extents{rows, heads} : Extents{heads});
  for (int i = 0; i < rows * heads; ++i) store(slopes, i, random.uniform(-0.05, 0.2));
  owner.formula_reads_batch |= own;
  return alibi(slopes);
}

ScoreChange bias_change(Random& random, const FormulaExtent& extent, RandomProblem& owner) {
  const int rows = random.chance(0.4) ? extent.sequences : 1;
  const int heads = random.chance(0.5) ? extent.query_heads : 1;
  const OutputView bias = owner.memory.allocate(
      DType::f32, {rows, heads, extent.query_rows, extent.key_rows},
      {.order = {}, .padding = random.between(0, 3), .offset = random.between(0, 3)});
  for (std::int64_t i = 0; i < bias.element_count(); ++i) store(bias, i, random.normal());
  owner.formula_reads_batch |= rows > 1;
  return additive_bias(bias);
}

ScoreChange basic_change(Random& random, const FormulaExtent& extent, RandomProblem& owner) {
  if (extent.parts == FormulaParts::everything && random.chance(0.5))
    return change(expression_of(random, extent, owner, draw_steady_change));
  const bool has_pairs = extent.query_rows > 0 && extent.key_rows > 0;
  const bool may_read_bias = extent.positions_are_indices && has_pairs;
  if (extent.parts == FormulaParts::built_ins) {
    const int kind = random.between(0, may_read_bias ? 2 : 1);
    if (kind == 2) return bias_change(random, extent, owner);
    return kind == 0 ? softcap(random.uniform(0.5, 20)) : alibi_change(random, extent, owner);
  }
  switch (random.between(0, may_read_bias ? 6 : 5)) {
    case 0: return softcap(random.uniform(0.5, 20));
    case 1: return alibi_change(random, extent, owner);
    case 2: return change(Distance{random.uniform(0, 0.1)}, "minus distance");
    case 3: return change(Squash{random.uniform(1, 8)}, "squash");
    case 4: return change(PerHead{}, "per head");
    case 5:
      return change(
          [](auto s, auto q, auto k, score::Place at) {
            using S = decltype(s);
            using F = typename score::Plain<S>::type;
            return S(F(3)) * tilefold::score::tanh(s * S(F(0.5))) +
                   S(F(0.01)) * score::real<S>(k - (q + decltype(q)(at.offset)));
          },
          "tanh plus distance");
    default: return bias_change(random, extent, owner);
  }
}

}  // namespace

ScoreChange random_score_change(Random& random, const FormulaExtent& extent, RandomProblem& owner) {
  ScoreChange drawn = basic_change(random, extent, owner);
  while (random.chance(0.3)) drawn = drawn.then(basic_change(random, extent, owner));
  return drawn;
}

Mask mask_of_form(MaskForm form, Random& random, const FormulaExtent& extent,
                  RandomProblem& owner) {
  switch (form) {
    case MaskForm::any_range: return random.chance(0.5) ? causal() : Mask();
    case MaskForm::none: return {};
    case MaskForm::causal: return causal();
    case MaskForm::window: return random_window(random, extent);
    case MaskForm::causal_window: return causal() && random_window(random, extent);
    case MaskForm::prefix: return causal() || random_prefix(random, extent, owner);
    case MaskForm::documents: return causal() && random_documents(random, extent, owner);
    case MaskForm::mixed:
      return (causal() && !random_window(random, extent)) || random_prefix(random, extent, owner);
    case MaskForm::code: return mask(Checkerboard{random.between(1, 40)}, "checkerboard");
  }
  return {};
}

ScoreChange change_of_form(ScoreForm form, Random& random, const FormulaExtent& extent,
                           RandomProblem& owner) {
  switch (form) {
    case ScoreForm::none: return {};
    case ScoreForm::built_ins:
      return alibi_change(random, extent, owner).then(softcap(random.uniform(0.5, 20)));
    case ScoreForm::code: return change(Distance{random.uniform(0, 0.1)}, "minus distance");
  }
  return {};
}

}  // namespace tilefold::testing
