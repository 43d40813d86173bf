#include "score/program/joined_program.hpp"

#include "score/program/formula_nodes.hpp"

namespace tilefold::score {

namespace {

using namespace symbols;

Expression window_expression(int left, int right) {
  const Expression behind = q + off - k;
  Expression kept = true;
  if (left >= 0) kept = kept && behind <= left;
  if (right >= 0) kept = kept && -right <= behind;
  return kept;
}

/// The table of a built-in mask, on the host; what it says of a sequence is row `batch`, or the one
/// row that all share.
SideTensor table_of(const MaskDescription& d) {
  const Lookup& lookup = *d.lookup;
  const Extents shape{d.sequences, lookup.positions};
  return SideTensor("table", TensorView(lookup.values, shape, {lookup.batch_stride, 1}));
}

Expression expression_of(const MaskDescription& d) {
  using Kind = MaskDescription::Kind;
  switch (d.kind) {
    case Kind::causal: return k <= q + off;
    case Kind::window: return window_expression(d.left, d.right);
    case Kind::prefix: return k < table_of(d)(batch, 0);
    case Kind::document: {
      const SideTensor table = table_of(d);
      return table(batch, q + off) == table(batch, k);
    }
    default: return true;
  }
}

class Joiner {
 public:
  /// The node of the mask's answer, or -1.
  int add(const MaskNode& mask) {
    using Kind = MaskDescription::Kind;
    if (const auto* program = dynamic_cast<const ProgramMask*>(&mask))
      return append(program->program().program());
    const MaskDescription d = mask.describe();
    switch (d.kind) {
      case Kind::code: return -1;
      case Kind::both: return join(Op::both, add(*d.first), add(*d.second));
      case Kind::either: return join(Op::either, add(*d.first), add(*d.second));
      case Kind::negated: {
        const int inner = add(*d.first);
        return inner < 0 ? -1 : answer(Op::negate, inner, 0, 1);
      }
      default: return append(make_program(expression_of(d), Purpose::mask));
    }
  }
  int join(Op op, int a, int b) { return a < 0 || b < 0 ? -1 : answer(op, a, b, 2); }
  ScoreProgram take() { return std::move(joined_); }

 private:
  int answer(Op op, int a, int b, int operands) {
    ProgramNode node{};
    node.op = op;
    node.kind = Kind::truth;
    node.varies = by_both;
    node.operands = operands;
    node.operand[0] = a;
    node.operand[1] = b;
    joined_.nodes.push_back(node);
    return int(joined_.nodes.size()) - 1;
  }
  int append(const ScoreProgram& part) {
    const int nodes = int(joined_.nodes.size()), scalars = int(joined_.scalars.size()),
              tensors = int(joined_.tensors.size());
    for (ProgramNode node : part.nodes) {
      for (int i = 0; i < node.operands; ++i) node.operand[i] += nodes;
      if (node.op == Op::lookup) node.integer += tensors;
      if (node.op == Op::integer_scalar || node.op == Op::real_scalar) node.integer += scalars;
      joined_.nodes.push_back(node);
    }
    joined_.scalars.insert(joined_.scalars.end(), part.scalars.begin(), part.scalars.end());
    joined_.tensors.insert(joined_.tensors.end(), part.tensors.begin(), part.tensors.end());
    joined_.blocked.insert(joined_.blocked.end(), part.blocked.begin(), part.blocked.end());
    return int(joined_.nodes.size()) - 1;
  }

  ScoreProgram joined_;
};

}  // namespace

std::optional<ScoreProgram> joined_program(const std::vector<const MaskNode*>& masks) {
  Joiner joiner;
  int all = joiner.add(*masks.front());
  for (std::size_t i = 1; i < masks.size(); ++i)
    all = joiner.join(Op::both, all, joiner.add(*masks[i]));
  if (all < 0) return std::nullopt;
  return joiner.take();
}

}  // namespace tilefold::score
