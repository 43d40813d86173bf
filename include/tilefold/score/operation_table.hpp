// The operations of run-time formulas: names, signs and kinds, one row each, and the way from a row
// to the struct of operations.hpp that computes it.
#pragma once

#include "tilefold/score/operations.hpp"

namespace tilefold::score {

/// Leaves first, then operations in the order of the table.
enum class Op : unsigned char {
  // constants, and what the caller gives
  integer,
  real,
  truth,
  integer_scalar,
  real_scalar,
  // where the formula is read
  query,
  key,
  offset,
  batch,
  query_head,
  kv_head,
  query_length,
  key_length,
  score,
  // an entry of a side tensor; the operands are its indices
  lookup,
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  minimum,
  maximum,
  negative,
  absolute,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  test_bit,
  less,
  less_equal,
  equal,
  both,
  either,
  negate,
  select,
  exp,
  log,
  tanh,
  sigmoid,
  floor,
  real_of,
};
inline constexpr Op first_operation = Op::add, last_operation = Op::real_of;
TILEFOLD_HD constexpr bool is_operation(Op op) { return op >= first_operation; }

/// What a value is.
enum class Kind : unsigned char { integer, real, truth };

/// What an operation takes and gives.
enum class Signature : unsigned char {
  numbers,   ///< integers -> integer, or reals -> real
  integers,  ///< integers -> integer
  reals,     ///< reals -> real
  compare,   ///< two of one number kind -> truth
  bit,       ///< two integers -> truth
  truths,    ///< truths -> truth
  choice,    ///< truth, two of one kind -> that kind
  to_real,   ///< integer -> real
  to_whole,  ///< real -> integer
};

struct OperationRow {
  Op op;
  const char* code;  ///< struct of namespace score::op
  const char* word;  ///< as a function in a text, or as a word between operands; null for none
  const char* sign;  ///< between operands; null for none
  int binding;       ///< of the sign: larger binds tighter; 0 for functions
  int operands;
  Signature signature;
  bool commutes;
};

/// Binding strength of a sign in texts, as in C, save that comparisons come after bit operations.
inline constexpr OperationRow operation_rows[] = {
    {Op::add, "Add", nullptr, "+", 8, 2, Signature::numbers, true},
    {Op::subtract, "Subtract", nullptr, "-", 8, 2, Signature::numbers, false},
    {Op::multiply, "Multiply", nullptr, "*", 9, 2, Signature::numbers, true},
    {Op::divide, "Divide", nullptr, "/", 9, 2, Signature::reals, false},
    {Op::floor_divide, "FloorDivide", nullptr, "//", 9, 2, Signature::integers, false},
    {Op::modulo, "Modulo", nullptr, "%", 9, 2, Signature::integers, false},
    {Op::minimum, "Minimum", "min", nullptr, 0, 2, Signature::numbers, false},
    {Op::maximum, "Maximum", "max", nullptr, 0, 2, Signature::numbers, false},
    {Op::negative, "Negative", nullptr, "-", 10, 1, Signature::numbers, false},
    {Op::absolute, "Absolute", "abs", nullptr, 0, 1, Signature::numbers, false},
    {Op::bit_and, "BitAnd", nullptr, "&", 6, 2, Signature::integers, true},
    {Op::bit_or, "BitOr", nullptr, "|", 4, 2, Signature::integers, true},
    {Op::bit_xor, "BitXor", nullptr, "^", 5, 2, Signature::integers, true},
    {Op::shift_left, "ShiftLeft", nullptr, "<<", 7, 2, Signature::integers, false},
    {Op::shift_right, "ShiftRight", nullptr, ">>", 7, 2, Signature::integers, false},
    {Op::test_bit, "TestBit", "bit", nullptr, 0, 2, Signature::bit, false},
    {Op::less, "Less", nullptr, "<", 3, 2, Signature::compare, false},
    {Op::less_equal, "LessEqual", nullptr, "<=", 3, 2, Signature::compare, false},
    {Op::equal, "Equal", nullptr, "==", 3, 2, Signature::compare, true},
    {Op::both, "Both", nullptr, "and", 2, 2, Signature::truths, true},
    {Op::either, "Either", nullptr, "or", 1, 2, Signature::truths, true},
    {Op::negate, "Not", nullptr, "not ", 10, 1, Signature::truths, false},
    {Op::select, "Select", "select", nullptr, 0, 3, Signature::choice, false},
    {Op::exp, "Exp", "exp", nullptr, 0, 1, Signature::reals, false},
    {Op::log, "Log", "log", nullptr, 0, 1, Signature::reals, false},
    {Op::tanh, "Tanh", "tanh", nullptr, 0, 1, Signature::reals, false},
    {Op::sigmoid, "Sigmoid", "sigmoid", nullptr, 0, 1, Signature::reals, false},
    {Op::floor, "Floor", "floor", nullptr, 0, 1, Signature::to_whole, false},
    {Op::real_of, "RealOf", "real", nullptr, 0, 1, Signature::to_real, false},
};
TILEFOLD_HD constexpr const OperationRow& row_of(Op op) {
  return operation_rows[int(op) - int(first_operation)];
}
TILEFOLD_HD constexpr bool rows_stand_in_order() {
  for (int i = 0; i <= int(last_operation) - int(first_operation); ++i)
    if (int(operation_rows[i].op) != int(first_operation) + i) return false;
  return sizeof operation_rows / sizeof operation_rows[0] ==
         unsigned(last_operation) - unsigned(first_operation) + 1;
}
static_assert(rows_stand_in_order());

/// An operation as a type: visitors read at compile time what it takes.
template <Op op> struct OpConstant {
  static constexpr Signature signature = row_of(op).signature;
  static constexpr int operands = row_of(op).operands;
};

/// Calls visit(operation, OpConstant) with the struct that computes `op`. RealOf is RealOf<Real>.
template <class Real, class Visit>
TILEFOLD_HD decltype(auto) with_operation(Op op, const Visit& visit) {
  switch (op) {
    case Op::add: return visit(op::Add{}, OpConstant<Op::add>{});
    case Op::subtract: return visit(op::Subtract{}, OpConstant<Op::subtract>{});
    case Op::multiply: return visit(op::Multiply{}, OpConstant<Op::multiply>{});
    case Op::divide: return visit(op::Divide{}, OpConstant<Op::divide>{});
    case Op::floor_divide: return visit(op::FloorDivide{}, OpConstant<Op::floor_divide>{});
    case Op::modulo: return visit(op::Modulo{}, OpConstant<Op::modulo>{});
    case Op::minimum: return visit(op::Minimum{}, OpConstant<Op::minimum>{});
    case Op::maximum: return visit(op::Maximum{}, OpConstant<Op::maximum>{});
    case Op::negative: return visit(op::Negative{}, OpConstant<Op::negative>{});
    case Op::absolute: return visit(op::Absolute{}, OpConstant<Op::absolute>{});
    case Op::bit_and: return visit(op::BitAnd{}, OpConstant<Op::bit_and>{});
    case Op::bit_or: return visit(op::BitOr{}, OpConstant<Op::bit_or>{});
    case Op::bit_xor: return visit(op::BitXor{}, OpConstant<Op::bit_xor>{});
    case Op::shift_left: return visit(op::ShiftLeft{}, OpConstant<Op::shift_left>{});
    case Op::shift_right: return visit(op::ShiftRight{}, OpConstant<Op::shift_right>{});
    case Op::test_bit: return visit(op::TestBit{}, OpConstant<Op::test_bit>{});
    case Op::less: return visit(op::Less{}, OpConstant<Op::less>{});
    case Op::less_equal: return visit(op::LessEqual{}, OpConstant<Op::less_equal>{});
    case Op::equal: return visit(op::Equal{}, OpConstant<Op::equal>{});
    case Op::both: return visit(op::Both{}, OpConstant<Op::both>{});
    case Op::either: return visit(op::Either{}, OpConstant<Op::either>{});
    case Op::negate: return visit(op::Not{}, OpConstant<Op::negate>{});
    case Op::select: return visit(op::Select{}, OpConstant<Op::select>{});
    case Op::exp: return visit(op::Exp{}, OpConstant<Op::exp>{});
    case Op::log: return visit(op::Log{}, OpConstant<Op::log>{});
    case Op::tanh: return visit(op::Tanh{}, OpConstant<Op::tanh>{});
    case Op::sigmoid: return visit(op::Sigmoid{}, OpConstant<Op::sigmoid>{});
    case Op::floor: return visit(op::Floor{}, OpConstant<Op::floor>{});
    default: return visit(op::RealOf<Real>{}, OpConstant<Op::real_of>{});
  }
}

}  // namespace tilefold::score
