#include "score/program/instructions.hpp"

#include <algorithm>
#include <array>

namespace tilefold::score {

namespace {

/// Leaves take a value for as long as someone needs it, or are read again wherever one does.
enum class Leaves { once, at_each_use };

/// A node in the order of computation; operands are earlier steps.
struct Step {
  int node;
  std::array<int, 4> operand{};
  int last_use = 0;
};

/// The steps of a program, each operation's operands before it, those first that keep most values
/// alive (Sethi and Ullman, "The generation of optimal code for arithmetic expressions", 1970:
/// exact for trees, and programs are nearly trees).
class Order {
 public:
  Order(const ScoreProgram& program, Leaves leaves)
      : nodes_(program.nodes), leaves_(leaves), need_(nodes_.size()), step_(nodes_.size(), -1) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) need_[i] = need_of(nodes_[i]);
    add(int(nodes_.size()) - 1);
  }
  std::vector<Step> take() { return std::move(steps_); }

 private:
  using Operands = std::array<int, 4>;

  /// Which operand is computed first, second, ...
  Operands order_of(const ProgramNode& node) const {
    Operands order{0, 1, 2, 3};
    const auto needs = [&](int i) { return need_[std::size_t(node.operand[i])]; };
    std::stable_sort(order.begin(), order.begin() + node.operands,
                     [&](int a, int b) { return needs(a) > needs(b); });
    return order;
  }
  int need_of(const ProgramNode& node) const {
    const Operands order = order_of(node);
    int need = 1;
    for (int i = 0; i < node.operands; ++i)
      need = std::max(need, i + need_[std::size_t(node.operand[order[std::size_t(i)]])]);
    return need;
  }
  int add(int at) {
    const ProgramNode& node = nodes_[std::size_t(at)];
    int& known = step_[std::size_t(at)];
    const bool again = node.operands == 0 && leaves_ == Leaves::at_each_use;
    if (known >= 0 && !again) return known;
    Step step{at};
    const Operands order = order_of(node);
    for (int i = 0; i < node.operands; ++i) {
      const auto operand = std::size_t(order[std::size_t(i)]);
      step.operand[operand] = add(node.operand[operand]);
    }
    const int number = int(steps_.size());
    for (int i = 0; i < node.operands; ++i)
      steps_[std::size_t(step.operand[std::size_t(i)])].last_use = number;
    steps_.push_back(step);
    return known = number;
  }

  const std::vector<ProgramNode>& nodes_;
  Leaves leaves_;
  std::vector<int> need_;  // values alive while a node is computed, if it were a tree
  std::vector<int> step_;  // of each node; -1: none yet
  std::vector<Step> steps_;
};

/// The place of each step's value: the lowest that is free. Empty where there are too few.
std::optional<std::vector<unsigned char>> places_of(const std::vector<Step>& steps,
                                                    const std::vector<ProgramNode>& nodes) {
  std::array<bool, Instruction::most_values> taken{};
  std::vector<unsigned char> places;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const int operands = nodes[std::size_t(steps[i].node)].operands;
    // Operands are read before the result is written: it may take their place.
    for (int o = 0; o < operands; ++o) {
      const auto operand = std::size_t(steps[i].operand[std::size_t(o)]);
      if (steps[operand].last_use == int(i)) taken[places[operand]] = false;
    }
    const auto free = std::find(taken.begin(), taken.end(), false);
    if (free == taken.end()) return std::nullopt;
    *free = true;
    places.push_back(static_cast<unsigned char>(free - taken.begin()));
  }
  return places;
}

class Writer {
 public:
  explicit Writer(const ScoreProgram& program) : program_(program) {
    int integers = 0, reals = 0;
    for (const auto& tensor : program.tensors)
      tensor_.push_back(tensor->holds_reals() ? reals++ : integers++);
  }
  Instruction instruction(const Step& step, const std::vector<unsigned char>& places) const {
    const ProgramNode& node = program_.nodes[std::size_t(step.node)];
    Instruction to{};
    to.op = node.op;
    to.kind = program_.works_on(node);
    to.operands = static_cast<unsigned char>(node.operands);
    for (std::size_t i = 0; i < std::size_t(node.operands); ++i)
      to.from[i] = places[std::size_t(step.operand[i])];
    to.integer = node.integer;
    to.real = float(node.real);
    if (node.op == Op::lookup) to.integer = tensor_[std::size_t(node.integer)];
    if (node.op == Op::integer_scalar || node.op == Op::real_scalar) write_scalar(node, to);
    return to;
  }

 private:
  void write_scalar(const ProgramNode& node, Instruction& to) const {
    const ScalarState& scalar = *program_.scalars[std::size_t(node.integer)];
    to.op = node.op == Op::integer_scalar ? Op::integer : Op::real;
    to.integer = scalar.integer;
    to.real = float(scalar.real);
  }

  const ScoreProgram& program_;
  std::vector<int> tensor_;  // its number among those of its kind
};

std::optional<std::vector<Instruction>> written(const ScoreProgram& program, Leaves leaves) {
  const std::vector<Step> steps = Order(program, leaves).take();
  const auto places = places_of(steps, program.nodes);
  if (!places) return std::nullopt;
  const Writer writer(program);
  std::vector<Instruction> list;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    list.push_back(writer.instruction(steps[i], *places));
    list.back().to = (*places)[i];
  }
  return list;
}

}  // namespace

std::optional<std::vector<Instruction>> instructions_of(const ScoreProgram& program) {
  auto list = written(program, Leaves::once);
  return list ? list : written(program, Leaves::at_each_use);
}

}  // namespace tilefold::score
