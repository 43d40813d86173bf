// A formula as a list of operations, each on earlier ones: what is validated, hashed, evaluated,
// bounded and written as code. Two expressions that say the same in a different order are one
// program, as far as the rules of canonical.cpp see it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "score/program/expression_node.hpp"
#include "score/program/side_tensor_state.hpp"

namespace tilefold::score {

/// What a value changes with. A score changes with both.
enum Varies : unsigned char { by_nothing = 0, by_query = 1, by_key = 2, by_both = 3 };

struct ProgramNode {
  Op op;
  Kind kind;
  unsigned char varies;
  /// Whether the value is a sum of positions, scalars and constants that cannot leave 32 bits: code
  /// may then compute it in any order.
  bool affine;
  int operands;
  int operand[4];  // earlier nodes
  int integer;     // Op::integer and Op::truth; slot of a scalar or side tensor
  double real;     // Op::real
};

/// What a program is for decides whether it may read the score.
enum class Purpose { mask, score_change };

struct ScoreProgram {
  static constexpr int max_nodes = 1024, max_scalars = 16, max_tensors = 8;
  /// Positions, lengths and integer scalars lie within +-this.
  static constexpr int reach = 1 << 27;

  std::vector<ProgramNode> nodes;  // the last is the result
  std::vector<std::shared_ptr<ScalarState>> scalars;
  std::vector<std::shared_ptr<SideTensorState>> tensors;
  std::vector<unsigned> blocked;  // of each tensor: axes that queries or keys index

  const ProgramNode& root() const { return nodes.back(); }
  /// The kind of the numbers that an operation takes, or chooses between; a leaf's own.
  Kind works_on(const ProgramNode& node) const {
    const bool takes = is_operation(node.op) && row_of(node.op).signature != Signature::choice;
    return takes ? nodes[std::size_t(node.operand[0])].kind : node.kind;
  }
  /// The formula as parse_mask() or parse_score() reads it.
  std::string text() const { return text_of(int(nodes.size()) - 1); }
  std::string text_of(int node) const;
  /// Changes with every new value of a scalar or side tensor.
  unsigned revision() const;
  /// The first side tensor that lies on a device; null where none does.
  const TensorView* device_tensor() const;
  /// Of operations, constants and kinds; not of names and values.
  std::uint64_t hash() const;
};

/// Throws Error(invalid_argument) for a result of the wrong kind and for more than a program holds.
ScoreProgram make_program(const Expression& expression, Purpose purpose);

}  // namespace tilefold::score
