// A program with the arrays that it reads: what elements and intervals are evaluated on.
#pragma once

#include "score/program/program.hpp"
#include "tilefold/score/interpreter.hpp"

namespace tilefold::score {

/// A value of a whole tile: the member of the kind that its node has.
using Bound = Value<Interval>;

class BoundProgram {
 public:
  explicit BoundProgram(ScoreProgram program);

  const ScoreProgram& program() const { return program_; }
  const SideArray<int>& integers(int slot) const { return integers_[std::size_t(slot)]->array; }
  const SideArray<float>& reals(int slot) const { return reals_[std::size_t(slot)]->array; }
  /// Throws Error(shape_mismatch) where a bare index reaches past a tensor, and
  /// Error(invalid_argument) for a divisor that is 0 whatever the element.
  void require_fit(const Extent& extent) const;

  /// Every node's bounds over all pairs of the two intervals. `bounds` holds a Bound a node.
  void bound(Interval queries, Interval keys, const Place& place, Bound* bounds) const;
  Truth classify(Interval queries, Interval keys, const Place& place) const;

 private:
  Bound bound_of(const ProgramNode& node, const Bound* bounds) const;
  Bound entry(const ProgramNode& node, const Bound* bounds) const;

  ScoreProgram program_;
  std::vector<std::shared_ptr<const Cells<int>>> integers_;  // null where the tensor holds reals
  std::vector<std::shared_ptr<const Cells<float>>> reals_;
};

}  // namespace tilefold::score
