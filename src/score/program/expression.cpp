// Expressions in C++: constants, names, operators, and the kinds they ask for.
#include "tilefold/expression.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "score/program/program.hpp"
#include "tilefold/error.hpp"

namespace tilefold {

namespace score {

const char* name(Kind kind) {
  switch (kind) {
    case Kind::integer: return "an integer";
    case Kind::real: return "a real";
    case Kind::truth: return "a truth";
  }
  return "nothing";
}

namespace {

using Node = ExpressionNode;

Expression leaf(Node node) { return Expression(std::make_shared<const Node>(std::move(node))); }

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

/// How messages name an operation: its sign or its word.
std::string called(Op op) {
  const OperationRow& row = row_of(op);
  return std::string("'") + (row.sign != nullptr ? row.sign : row.word) + "'";
}

[[noreturn]] void refuse_kind(Op op, const Expression& operand, const char* wanted) {
  const Kind kind = operand.node()->kind;
  const std::string text = shown(operand);
  std::string message = called(op) + " takes " + wanted + ": " + text + " is " + name(kind);
  if (kind == Kind::integer && std::string(wanted).find("truth") != std::string::npos)
    message += "; write " + text + " != 0";
  refuse(message);
}

void require_all(Op op, const std::vector<Expression>& operands, Kind kind, const char* wanted) {
  for (const Expression& operand : operands)
    if (operand.node()->kind != kind) refuse_kind(op, operand, wanted);
}

Expression as_real(const Expression& x) {
  return x.node()->kind == Kind::integer ? apply(Op::real_of, {x}) : x;
}

/// Of two numbers of which one is a real, the other becomes one.
void make_alike(std::vector<Expression>& operands, std::size_t first) {
  bool any_real = false;
  for (std::size_t i = first; i < operands.size(); ++i)
    any_real = any_real || operands[i].node()->kind == Kind::real;
  for (std::size_t i = first; any_real && i < operands.size(); ++i)
    operands[i] = as_real(operands[i]);
}

void require_numbers(Op op, const std::vector<Expression>& operands, std::size_t first) {
  for (std::size_t i = first; i < operands.size(); ++i)
    if (operands[i].node()->kind == Kind::truth) refuse_kind(op, operands[i], "numbers");
}

/// Makes the operands what the operation takes; says what it gives.
Kind fit(Op op, std::vector<Expression>& operands) {
  switch (row_of(op).signature) {
    case Signature::numbers:
      require_numbers(op, operands, 0);
      make_alike(operands, 0);
      return operands[0].node()->kind;
    case Signature::integers:
      require_all(op, operands, Kind::integer, "integers");
      return Kind::integer;
    case Signature::reals:
      require_numbers(op, operands, 0);
      for (Expression& operand : operands) operand = as_real(operand);
      return Kind::real;
    case Signature::compare:
      if (op == Op::equal && operands[0].node()->kind == Kind::truth) {
        require_all(op, operands, Kind::truth, "two of one kind");
        return Kind::truth;
      }
      require_numbers(op, operands, 0);
      make_alike(operands, 0);
      return Kind::truth;
    case Signature::bit: require_all(op, operands, Kind::integer, "integers"); return Kind::truth;
    case Signature::truths: require_all(op, operands, Kind::truth, "truths"); return Kind::truth;
    case Signature::choice:
      if (operands[0].node()->kind != Kind::truth)
        refuse_kind(op, operands[0], "a truth as its condition");
      if (operands[1].node()->kind == Kind::truth || operands[2].node()->kind == Kind::truth) {
        require_all(op, {operands[1], operands[2]}, Kind::truth, "two of one kind");
        return Kind::truth;
      }
      make_alike(operands, 1);
      return operands[1].node()->kind;
    case Signature::to_real:
      require_all(op, operands, Kind::integer, "an integer");
      return Kind::real;
    case Signature::to_whole: require_all(op, operands, Kind::real, "a real"); return Kind::integer;
  }
  return Kind::integer;
}

void refuse_zero_divisor(Op op, const Expression& divisor) {
  const Node& given = *divisor.node();
  const Node& node = given.op == Op::real_of ? *given.operands[0].node() : given;  // as in s / 0
  const bool zero = (node.op == Op::integer && node.integer == 0) ||
                    (node.op == Op::real && node.real_value == 0);
  if (zero && (op == Op::floor_divide || op == Op::modulo || op == Op::divide))
    refuse("division by zero: the right side of " + called(op) + " is 0");
}

Expression operation(Op op, std::vector<Expression> operands, Kind kind) {
  Node node{.op = op, .kind = kind};
  for (const Expression& operand : operands) {
    node.depth = std::max(node.depth, operand.node()->depth + 1);
    node.size += operand.node()->size;
  }
  if (node.depth > Node::max_depth)
    refuse("the formula nests deeper than " + std::to_string(Node::max_depth) + " operations");
  if (node.size > Node::max_size)
    refuse("the formula, written out, has more than " + std::to_string(Node::max_size) + " terms");
  node.operands = std::move(operands);
  return leaf(std::move(node));
}

struct SymbolRow {
  Symbol symbol;
  Op op;
  Kind kind;
};
constexpr std::array symbol_rows = {
    SymbolRow{Symbol::query, Op::query, Kind::integer},
    SymbolRow{Symbol::key, Op::key, Kind::integer},
    SymbolRow{Symbol::offset, Op::offset, Kind::integer},
    SymbolRow{Symbol::score, Op::score, Kind::real},
    SymbolRow{Symbol::batch, Op::batch, Kind::integer},
    SymbolRow{Symbol::query_head, Op::query_head, Kind::integer},
    SymbolRow{Symbol::kv_head, Op::kv_head, Kind::integer},
    SymbolRow{Symbol::query_length, Op::query_length, Kind::integer},
    SymbolRow{Symbol::key_length, Op::key_length, Kind::integer},
};

}  // namespace

Expression symbol(Symbol which) {
  const SymbolRow& row = symbol_rows[std::size_t(which)];
  return leaf({.op = row.op, .kind = row.kind});
}

std::string shown(const Expression& expression) {
  constexpr std::size_t most = 60;
  std::string text = expression.text();
  if (text.size() > most) text = text.substr(0, most - 3) + "...";
  return text;
}

Expression apply(Op op, std::vector<Expression> operands) {
  const Kind kind = fit(op, operands);
  // Truths are equal where both hold or neither does.
  if (op == Op::equal && operands[0].node()->kind == Kind::truth)
    return (operands[0] && operands[1]) || !(operands[0] || operands[1]);
  if (operands.size() == 2) refuse_zero_divisor(op, operands[1]);
  return operation(op, std::move(operands), kind);
}

Expression entry(const SideTensor& tensor, std::vector<Expression> indices) {
  const std::shared_ptr<SideTensorState>& state = tensor.state();
  if (int(indices.size()) != state->values.rank())
    refuse("side tensor " + state->name + " is read at " + std::to_string(indices.size()) +
           (indices.size() == 1 ? " index" : " indices") + ": it is " + state->values.to_string() +
           ", one index an axis");
  for (const Expression& index : indices)
    if (index.node()->kind != Kind::integer)
      refuse("an index of side tensor " + state->name + " must be an integer: " + shown(index) +
             " is " + name(index.node()->kind));
  const bool truths = state->kind == Kind::truth;
  Expression read = operation(Op::lookup, std::move(indices), truths ? Kind::integer : state->kind);
  auto node = std::make_shared<Node>(*read.node());
  node->tensor = state;
  read = Expression(std::move(node));
  return truths ? read != 0 : read;
}

}  // namespace score

using score::apply;
using score::Kind;
using score::Op;

namespace {

/// A formula computes in float32, where a larger real would be an infinity without a word.
void require_real(const std::string& what, double value) {
  if (std::isnan(value)) score::refuse(what + " is NaN");
  if (std::isfinite(value) && std::fabs(value) > double(std::numeric_limits<float>::max()))
    score::refuse(what + " is beyond 3.4e38, the largest real of 32 bits");
}

}  // namespace

Expression::Expression(int value)
    : Expression(score::leaf({.op = Op::integer, .kind = Kind::integer, .integer = value})) {}
Expression::Expression(double value)
    : Expression(score::leaf({.op = Op::real, .kind = Kind::real, .real_value = value})) {
  require_real("a constant of a formula", value);
}
int Expression::held(bool fits, int value) {
  if (!fits) score::refuse("a constant of a formula is an integer that 32 bits do not hold");
  return value;
}
Expression::Expression(std::shared_ptr<const score::ExpressionNode> node) : node_(std::move(node)) {
  if (node_ == nullptr) score::refuse("an expression has no node");
}
Expression Expression::truth(bool value) {
  return score::leaf({.op = Op::truth, .kind = Kind::truth, .integer = value ? 1 : 0});
}
Expression::Expression(const Scalar& scalar)
    : Expression(score::leaf(
          {.op = scalar.state()->kind == Kind::real ? Op::real_scalar : Op::integer_scalar,
           .kind = scalar.state()->kind,
           .scalar = scalar.state()})) {}

Expression operator+(const Expression& a, const Expression& b) { return apply(Op::add, {a, b}); }
Expression operator-(const Expression& a, const Expression& b) {
  return apply(Op::subtract, {a, b});
}
Expression operator*(const Expression& a, const Expression& b) {
  return apply(Op::multiply, {a, b});
}
Expression operator/(const Expression& a, const Expression& b) { return apply(Op::divide, {a, b}); }
Expression operator%(const Expression& a, const Expression& b) { return apply(Op::modulo, {a, b}); }
Expression operator-(const Expression& a) { return apply(Op::negative, {a}); }
Expression operator<(const Expression& a, const Expression& b) { return apply(Op::less, {a, b}); }
Expression operator<=(const Expression& a, const Expression& b) {
  return apply(Op::less_equal, {a, b});
}
Expression operator>(const Expression& a, const Expression& b) { return b < a; }
Expression operator>=(const Expression& a, const Expression& b) { return b <= a; }
Expression operator==(const Expression& a, const Expression& b) { return apply(Op::equal, {a, b}); }
Expression operator!=(const Expression& a, const Expression& b) { return !(a == b); }
Expression operator&&(const Expression& a, const Expression& b) { return apply(Op::both, {a, b}); }
Expression operator||(const Expression& a, const Expression& b) {
  return apply(Op::either, {a, b});
}
Expression operator!(const Expression& a) { return apply(Op::negate, {a}); }
Expression operator&(const Expression& a, const Expression& b) {
  return apply(Op::bit_and, {a, b});
}
Expression operator|(const Expression& a, const Expression& b) { return apply(Op::bit_or, {a, b}); }
Expression operator^(const Expression& a, const Expression& b) {
  return apply(Op::bit_xor, {a, b});
}
Expression operator<<(const Expression& a, const Expression& b) {
  return apply(Op::shift_left, {a, b});
}
Expression operator>>(const Expression& a, const Expression& b) {
  return apply(Op::shift_right, {a, b});
}

Expression floor_div(const Expression& a, const Expression& b) {
  return apply(Op::floor_divide, {a, b});
}
Expression min(const Expression& a, const Expression& b) { return apply(Op::minimum, {a, b}); }
Expression max(const Expression& a, const Expression& b) { return apply(Op::maximum, {a, b}); }
Expression abs(const Expression& a) { return apply(Op::absolute, {a}); }
Expression bit(const Expression& word, const Expression& at) {
  return apply(Op::test_bit, {word, at});
}
Expression select(const Expression& condition, const Expression& a, const Expression& b) {
  return apply(Op::select, {condition, a, b});
}
Expression exp(const Expression& a) { return apply(Op::exp, {a}); }
Expression log(const Expression& a) { return apply(Op::log, {a}); }
Expression tanh(const Expression& a) { return apply(Op::tanh, {a}); }
Expression sigmoid(const Expression& a) { return apply(Op::sigmoid, {a}); }
Expression floor(const Expression& a) { return apply(Op::floor, {a}); }
Expression real(const Expression& a) { return score::as_real(a); }

Expression SideTensor::operator[](const Expression& index) const {
  return score::entry(*this, {index});
}
Expression SideTensor::operator()(const Expression& a, const Expression& b) const {
  return score::entry(*this, {a, b});
}
Expression SideTensor::operator()(const Expression& a, const Expression& b,
                                  const Expression& c) const {
  return score::entry(*this, {a, b, c});
}
Expression SideTensor::operator()(const Expression& a, const Expression& b, const Expression& c,
                                  const Expression& d) const {
  return score::entry(*this, {a, b, c, d});
}

namespace {

void require_name(const std::string& name, const char* what) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  bool fits = !name.empty() && letter(name[0]);
  for (const char c : name) fits = fits && (letter(c) || (c >= '0' && c <= '9'));
  if (!fits)
    score::refuse("the name of a " + std::string(what) + " is '" + name +
                  "': it must be letters, digits and _, and not begin with a digit");
  if (score::is_reserved(name))
    score::refuse("the name of a " + std::string(what) + " is '" + name +
                  "': formulas mean something else by it");
}

}  // namespace

Scalar::Scalar(std::string name, int value)
    : state_(std::make_shared<score::ScalarState>(
          score::ScalarState{std::move(name), Kind::integer})) {
  require_name(state_->name, "scalar");
  set(value);
}
Scalar::Scalar(std::string name, double value)
    : state_(
          std::make_shared<score::ScalarState>(score::ScalarState{std::move(name), Kind::real})) {
  require_name(state_->name, "scalar");
  set(value);
}
void Scalar::set(int value) {
  if (state_->kind == Kind::real) return set(double(value));
  constexpr int reach = score::ScoreProgram::reach;
  if (value < -reach || value > reach)
    score::refuse("scalar " + state_->name + " is " + std::to_string(value) +
                  ": integers of a formula lie within +-" + std::to_string(reach));
  state_->integer = value;
  ++state_->revision;
}
void Scalar::set(double value) {
  if (state_->kind != Kind::real)
    score::refuse("scalar " + state_->name + " is an integer: it was given the real " +
                  std::to_string(value));
  require_real("scalar " + state_->name, value);
  state_->real = value;
  ++state_->revision;
}
const std::string& Scalar::name() const { return state_->name; }

SideTensor::SideTensor(std::string name, const TensorView& values)
    : state_(std::make_shared<score::SideTensorState>()) {
  require_name(name, "side tensor");
  state_->name = std::move(name);
  state_->take(values);
}
void SideTensor::update(const TensorView& values) {
  const TensorView& old = state_->values;
  if (values.dtype() != old.dtype() || !(values.shape() == old.shape()) ||
      !(values.device() == old.device()))
    throw Error(ErrorCode::shape_mismatch,
                "side tensor " + name() + " is " + old.to_string() + ": an update must have its " +
                    "dtype, shape and device, and is " + values.to_string());
  state_->take(values);
}
const std::string& SideTensor::name() const { return state_->name; }

}  // namespace tilefold
