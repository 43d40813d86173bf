// Programs and expressions as the text that the parser reads.
#include <charconv>
#include <cmath>
#include <cstring>

#include "score/program/program.hpp"

namespace tilefold::score {

namespace {

constexpr int tightest = 11;

struct Piece {
  std::string text;
  int binding = tightest;  // of its outermost sign
};

std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  std::string text(digits, end);
  // "1" would be read as an integer.
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

Piece signed_number(std::string text) {
  const bool negative = text[0] == '-';
  return {std::move(text), negative ? row_of(Op::negative).binding : tightest};
}

const char* symbol_text(Op op) {
  switch (op) {
    case Op::query: return "q";
    case Op::key: return "k";
    case Op::offset: return "off";
    case Op::batch: return "batch";
    case Op::query_head: return "head";
    case Op::kv_head: return "kv_head";
    case Op::query_length: return "query_length";
    case Op::key_length: return "key_length";
    default: return "s";
  }
}

std::string wrapped(const Piece& piece, int least) {
  return piece.binding < least ? "(" + piece.text + ")" : piece.text;
}

/// `not` stands before comparisons and binds as they do.
constexpr int comparison_binding = row_of(Op::less).binding;
Piece denied(const Piece& piece) {
  return {"not " + wrapped(piece, comparison_binding), comparison_binding};
}

Piece related(const char* sign, const std::vector<Piece>& operands) {
  // Comparisons do not stand beside one another: `a < b < c` means something else.
  const int least = comparison_binding + 1;
  return {wrapped(operands[0], least) + " " + sign + " " + wrapped(operands[1], least),
          comparison_binding};
}

/// Chains are written without brackets, so that what was read without them is read again.
Piece joined(Op op, const std::vector<Piece>& operands) {
  const OperationRow& row = row_of(op);
  if (op == Op::negate) return denied(operands[0]);
  if (row.signature == Signature::compare) return related(row.sign, operands);
  if (row.operands == 1 && row.sign != nullptr)
    return {row.sign + wrapped(operands[0], row.binding + 1), row.binding};
  if (row.sign != nullptr) {
    const bool swap =
        row.commutes && operands[1].binding == row.binding && operands[0].binding > row.binding;
    const Piece &left = operands[swap ? 1 : 0], &right = operands[swap ? 0 : 1];
    return {wrapped(left, row.binding) + " " + row.sign + " " + wrapped(right, row.binding + 1),
            row.binding};
  }
  std::string text = std::string(row.word) + "(";
  const bool folds = (op == Op::minimum || op == Op::maximum) && operands[0].binding == tightest &&
                     operands[0].text.starts_with(text);
  text = folds ? operands[0].text.substr(0, operands[0].text.size() - 1) : text + operands[0].text;
  for (std::size_t i = 1; i < operands.size(); ++i) text += ", " + operands[i].text;
  return {text + ")"};
}

std::string entry(const std::string& name, const std::vector<Piece>& indices) {
  std::string text = name + "[";
  for (std::size_t i = 0; i < indices.size(); ++i) text += (i ? ", " : "") + indices[i].text;
  return text + "]";
}

/// The entry that `node`, of the form entry == 0, negates, where the entries are truths; else null.
const Expression* truth_entry(const ExpressionNode& node) {
  if (node.op != Op::equal) return nullptr;
  for (const Expression& side : node.operands)
    if (side.node()->op == Op::lookup && side.node()->tensor->kind == Kind::truth) return &side;
  return nullptr;
}

Piece text_of_expression(const Expression& expression) {
  const ExpressionNode& node = *expression.node();
  if (const Expression* entry = truth_entry(node)) return denied(text_of_expression(*entry));
  const auto operands_of = [](const ExpressionNode& of) {
    std::vector<Piece> pieces;
    for (const Expression& operand : of.operands) pieces.push_back(text_of_expression(operand));
    return pieces;
  };
  if (node.op == Op::negate) {
    const ExpressionNode& inner = *node.operands[0].node();
    if (const Expression* entry = truth_entry(inner)) return text_of_expression(*entry);
    if (inner.op == Op::equal) return related("!=", operands_of(inner));
  }
  const std::vector<Piece> operands = operands_of(node);
  switch (node.op) {
    case Op::integer: return signed_number(std::to_string(node.integer));
    case Op::real: return signed_number(number(node.real_value));
    case Op::truth: return {node.integer != 0 ? "true" : "false"};
    case Op::integer_scalar:
    case Op::real_scalar: return {node.scalar->name};
    case Op::lookup: return {entry(node.tensor->name, operands)};
    default: break;
  }
  return is_operation(node.op) ? joined(node.op, operands) : Piece{symbol_text(node.op)};
}

/// The lookup of `lookup == 0` where the tensor's entries are truths: a text names it alone.
int truth_entry(const ScoreProgram& program, const ProgramNode& node) {
  if (node.op != Op::equal) return -1;
  for (int i = 0; i < 2; ++i) {
    const ProgramNode& side = program.nodes[std::size_t(node.operand[i])];
    if (side.op == Op::lookup && program.tensors[std::size_t(side.integer)]->kind == Kind::truth)
      return node.operand[i];
  }
  return -1;
}

Piece text_of_node(const ScoreProgram& program, int index) {
  const ProgramNode& node = program.nodes[std::size_t(index)];
  const auto operands_of = [&](const ProgramNode& of) {
    std::vector<Piece> pieces;
    for (int i = 0; i < of.operands; ++i) pieces.push_back(text_of_node(program, of.operand[i]));
    return pieces;
  };
  if (const int entry = truth_entry(program, node); entry >= 0)
    return denied(text_of_node(program, entry));
  if (node.op == Op::negate) {
    const ProgramNode& inner = program.nodes[std::size_t(node.operand[0])];
    if (const int entry = truth_entry(program, inner); entry >= 0)
      return text_of_node(program, entry);
    if (inner.op == Op::equal) return related("!=", operands_of(inner));
  }
  const std::vector<Piece> operands = operands_of(node);
  switch (node.op) {
    case Op::integer: return signed_number(std::to_string(node.integer));
    case Op::real: return signed_number(number(node.real));
    case Op::truth: return {node.integer != 0 ? "true" : "false"};
    case Op::integer_scalar:
    case Op::real_scalar: return {program.scalars[std::size_t(node.integer)]->name};
    case Op::lookup: return {entry(program.tensors[std::size_t(node.integer)]->name, operands)};
    default: break;
  }
  return is_operation(node.op) ? joined(node.op, operands) : Piece{symbol_text(node.op)};
}

}  // namespace

std::string ScoreProgram::text_of(int node) const { return text_of_node(*this, node).text; }

}  // namespace tilefold::score

namespace tilefold {

std::string Expression::text() const { return score::text_of_expression(*this).text; }

}  // namespace tilefold
