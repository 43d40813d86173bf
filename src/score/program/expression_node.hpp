// An expression as it was written: an immutable tree whose kinds fit.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "score/program/operation.hpp"
#include "tilefold/expression.hpp"

namespace tilefold::score {

/// A number that a formula is given; see Scalar.
struct ScalarState {
  std::string name;
  Kind kind;
  int integer = 0;
  double real = 0;
  unsigned revision = 0;  // counts set()
};

struct ExpressionNode {
  static constexpr int max_depth = 200;
  static constexpr long long max_size = 1 << 16;

  Op op;
  Kind kind;
  int depth = 1;          // of the tree below, itself included
  long long size = 1;     // its nodes, shared ones counted wherever they stand
  int integer = 0;        // Op::integer, Op::truth
  double real_value = 0;  // Op::real
  std::vector<Expression> operands{};
  std::shared_ptr<ScalarState> scalar{};
  std::shared_ptr<SideTensorState> tensor{};
};

/// An operation on operands whose kinds it checks; integers beside reals become reals. Throws
/// Error(invalid_argument).
Expression apply(Op op, std::vector<Expression> operands);

/// Whether a text that holds this name means a symbol or a word of the language by it.
bool is_reserved(std::string_view name);

/// The number without a sign that the whole text is, decimal or hexadecimal behind 0x; 2^40 where
/// it has more digits than 64 bits. None of other texts.
std::optional<long long> whole_number(std::string_view text);

/// The text as far as a message shows it.
std::string shown(const Expression& expression);

}  // namespace tilefold::score
