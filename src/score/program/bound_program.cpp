#include "score/program/bound_program.hpp"

#include <array>

#include "tilefold/error.hpp"

namespace tilefold::score {

BoundProgram::BoundProgram(ScoreProgram program) : program_(std::move(program)) {
  for (std::size_t i = 0; i < program_.tensors.size(); ++i) {
    SideTensorState& tensor = *program_.tensors[i];
    const bool reals = tensor.holds_reals();
    integers_.push_back(reals ? nullptr : tensor.integer_cells(program_.blocked[i]));
    reals_.push_back(reals ? tensor.real_cells(program_.blocked[i]) : nullptr);
  }
}

namespace {

constexpr std::size_t small_program = 48;

template <class At> auto read(const ProgramNode& node, const Bound* bounds, const At& at) {
  const auto index = [&](int i) { return bounds[node.operand[i]].integer; };
  switch (node.operands) {
    case 1: return at(index(0));
    case 2: return at(index(0), index(1));
    case 3: return at(index(0), index(1), index(2));
    default: return at(index(0), index(1), index(2), index(3));
  }
}

}  // namespace

Bound BoundProgram::entry(const ProgramNode& node, const Bound* bounds) const {
  Bound bound;
  if (node.kind == Kind::real)
    bound.real = read(node, bounds, [&](auto... at) { return reals(node.integer).at(at...); });
  else
    bound.integer =
        read(node, bounds, [&](auto... at) { return integers(node.integer).at(at...); });
  return bound;
}

Bound BoundProgram::bound_of(const ProgramNode& node, const Bound* bounds) const {
  return computed<Interval>(node.op, program_.works_on(node), bounds[node.operand[0]],
                            bounds[node.operand[1]], bounds[node.operand[2]]);
}

void BoundProgram::bound(Interval queries, Interval keys, const Place& place, Bound* bounds) const {
  for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
    const ProgramNode& node = program_.nodes[i];
    Bound& to = bounds[i];
    const auto slot = std::size_t(node.integer);
    switch (node.op) {
      case Op::integer: to.integer = node.integer; break;
      case Op::real: to.real = float(node.real); break;
      case Op::truth: to.truth = node.integer != 0; break;
      case Op::integer_scalar: to.integer = program_.scalars[slot]->integer; break;
      case Op::real_scalar: to.real = float(program_.scalars[slot]->real); break;
      case Op::query: to.integer = queries; break;
      case Op::key: to.integer = keys; break;
      case Op::offset: to.integer = place.offset; break;
      case Op::batch: to.integer = place.batch; break;
      case Op::query_head: to.integer = place.query_head; break;
      case Op::kv_head: to.integer = place.kv_head; break;
      case Op::query_length: to.integer = place.query_length; break;
      case Op::key_length: to.integer = place.key_length; break;
      case Op::score: to.real = Span::anything(); break;
      case Op::lookup: to = entry(node, bounds); break;
      default: to = bound_of(node, bounds);
    }
  }
}

Truth BoundProgram::classify(Interval queries, Interval keys, const Place& place) const {
  const std::size_t count = program_.nodes.size();
  if (count <= small_program) {
    std::array<Bound, small_program> bounds;
    bound(queries, keys, place, bounds.data());
    return bounds[count - 1].truth;
  }
  std::vector<Bound> bounds(count);
  bound(queries, keys, place, bounds.data());
  return bounds.back().truth;
}

namespace {

/// q + off, in the form that canonical.cpp gives it.
bool is_aligned_query(const ScoreProgram& program, const ProgramNode& node) {
  if (node.op != Op::add) return false;
  const Op a = program.nodes[std::size_t(node.operand[0])].op;
  const Op b = program.nodes[std::size_t(node.operand[1])].op;
  return a == Op::offset && b == Op::query;
}

/// One past the largest value of an index that is a bare name, or 0.
std::int64_t reach_of(const ScoreProgram& program, const ProgramNode& index, const Extent& extent) {
  switch (index.op) {
    case Op::batch: return extent.sequences;
    case Op::query_head: return extent.query_heads;
    case Op::kv_head: return extent.kv_heads;
    case Op::query: return extent.query_positions;
    case Op::key: return extent.key_positions;
    default: return is_aligned_query(program, index) ? extent.key_positions : 0;
  }
}

}  // namespace

void BoundProgram::require_fit(const Extent& extent) const {
  if (extent.query_positions > ScoreProgram::reach || extent.key_positions > ScoreProgram::reach)
    throw Error(ErrorCode::unsupported,
                "positions reach " +
                    std::to_string(std::max(extent.query_positions, extent.key_positions)) +
                    ": formulas at run time take positions up to " +
                    std::to_string(ScoreProgram::reach));
  for (const ProgramNode& node : program_.nodes) {
    const bool divides = node.op == Op::floor_divide || node.op == Op::modulo;
    if (divides) {
      const ProgramNode& divisor = program_.nodes[std::size_t(node.operand[1])];
      if (divisor.op == Op::integer_scalar &&
          program_.scalars[std::size_t(divisor.integer)]->integer == 0)
        throw Error(ErrorCode::invalid_argument,
                    "scalar " + program_.scalars[std::size_t(divisor.integer)]->name +
                        " is 0: a formula divides by it");
    }
    if (node.op != Op::lookup) continue;
    const SideTensorState& tensor = *program_.tensors[std::size_t(node.integer)];
    for (int axis = 0; axis < node.operands; ++axis) {
      const ProgramNode& index = program_.nodes[std::size_t(node.operand[axis])];
      const std::int64_t reach = reach_of(program_, index, extent);
      // One entry is shared by all, as the nearest one that is.
      if (tensor.values.dim(axis) != 1 && tensor.values.dim(axis) < reach)
        throw Error(ErrorCode::shape_mismatch, "side tensor " + tensor.name + " is " +
                                                   tensor.values.to_string() + ": axis " +
                                                   std::to_string(axis) + " is read at " +
                                                   program_.text_of(node.operand[axis]) +
                                                   ", which reaches " + std::to_string(reach - 1));
    }
  }
}

}  // namespace tilefold::score
