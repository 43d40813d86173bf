// A formula that was built at run time, read as data: a list of instructions on numbered values,
// for an element or for a whole tile. It needs no compiler where it runs, so any kernel, and any
// test on the host, reads any formula.
//
//   Value<int> kept = interpreted(code, Point<int>::of(q, k, 0.0f, place));       // kept.truth
//   Value<Interval> tile = interpreted(code, Point<Interval>{queries, keys, ...});    // a Truth
//
// What an operation computes stands in operations.hpp and nowhere else.
#pragma once

#include "tilefold/score/operation_table.hpp"
#include "tilefold/score/place.hpp"
#include "tilefold/score/side_array.hpp"

namespace tilefold::score {

/// A value of a formula that is read with N: which member holds it follows from the instruction.
template <class N> union Value {
  typename ReadingOf<N>::Integer integer;
  typename ReadingOf<N>::Real real;
  typename ReadingOf<N>::Answer truth;
};

/// Where a formula is read: a query and a key, or all of two intervals. Heads are read here and not
/// in `place`: rows of a tile may be of several.
template <class N> struct Point {
  N query, key, query_head, kv_head;
  typename ReadingOf<N>::Real score;  // of score changes
  Place place;

  TILEFOLD_HD static Point of(N query, N key, typename ReadingOf<N>::Real score,
                              const Place& place) {
    return {query, key, place.query_head, place.kv_head, score, place};
  }
};

/// One operation on earlier values, or one that is read from outside. 16 bytes, so that a GPU's
/// thread loads it at once.
struct alignas(16) Instruction {
  static constexpr int most_values = 64;  // alive at a time; Value<int> of all take 256 bytes

  Op op;
  Kind kind;         // of the result; of the operands where operations take numbers of either kind
  unsigned char to;  // the value that it gives
  unsigned char operands;
  unsigned char from[4];  // the values that it takes
  int integer;            // a constant; the number of a side tensor among those of its kind
  float real;             // a constant
};

/// The instructions of one formula, in order: the last gives the result. Scalars are constants.
struct InstructionList {
  const Instruction* instructions;
  int count;  // 0: no formula
  const SideArray<int>* integers;
  const SideArray<float>* reals;
};

/// One operation's operands and the place of its result, for with_operation().
template <class N> struct Computation {
  Kind kind;  // as in an instruction
  const Value<N>&a, &b, &c;
  Value<N>& to;

  template <class Operation, Op op>
  TILEFOLD_HD void operator()(Operation operation, OpConstant<op>) const {
    constexpr Signature signature = OpConstant<op>::signature;
    constexpr bool single = OpConstant<op>::operands == 1;
    const bool reals = kind == Kind::real;
    if constexpr (signature == Signature::numbers && single) {
      if (reals)
        to.real = operation.of(a.real);
      else
        to.integer = operation.of(a.integer);
    } else if constexpr (signature == Signature::numbers) {
      if (reals)
        to.real = operation.of(a.real, b.real);
      else
        to.integer = operation.of(a.integer, b.integer);
    } else if constexpr (signature == Signature::integers) {
      to.integer = operation.of(a.integer, b.integer);
    } else if constexpr (signature == Signature::reals && single) {
      to.real = operation.of(a.real);
    } else if constexpr (signature == Signature::reals) {
      to.real = operation.of(a.real, b.real);
    } else if constexpr (signature == Signature::compare) {
      to.truth = reals ? operation.of(a.real, b.real) : operation.of(a.integer, b.integer);
    } else if constexpr (signature == Signature::bit) {
      to.truth = operation.of(a.integer, b.integer);
    } else if constexpr (signature == Signature::truths && single) {
      to.truth = operation.of(a.truth);
    } else if constexpr (signature == Signature::truths) {
      to.truth = operation.of(a.truth, b.truth);
    } else if constexpr (signature == Signature::choice) {
      choose(operation, reals);
    } else if constexpr (signature == Signature::to_real) {
      to.real = operation.of(a.integer);
    } else {
      to.integer = operation.of(a.real);
    }
  }

  template <class Operation> TILEFOLD_HD void choose(Operation operation, bool reals) const {
    if (reals)
      to.real = operation.of(a.truth, b.real, c.real);
    else if (kind == Kind::integer)
      to.integer = operation.of(a.truth, b.integer, c.integer);
    else
      to.truth = operation.of(a.truth, b.truth, c.truth);
  }
};

/// What operation `op` makes of its operands; `kind` as in an instruction.
template <class N> TILEFOLD_HD Value<N> computed(Op op, Kind kind, const Value<N>& a,
                                                 const Value<N>& b, const Value<N>& c) {
  Value<N> to;
  with_operation<typename ReadingOf<N>::Real>(op, Computation<N>{kind, a, b, c, to});
  return to;
}

/// An entry of a side tensor, or the bounds of those that intervals of indices meet.
template <class N, class T> TILEFOLD_HD auto entry_of(const SideArray<T>& array,
                                                      const Instruction& lookup,
                                                      const Value<N>* values) {
  const unsigned char* from = lookup.from;
  const N a = values[from[0]].integer;
  if (lookup.operands == 1) return array.at(a);
  const N b = values[from[1]].integer;
  if (lookup.operands == 2) return array.at(a, b);
  const N c = values[from[2]].integer;
  if (lookup.operands == 3) return array.at(a, b, c);
  return array.at(a, b, c, N(values[from[3]].integer));
}

/// What an instruction reads from outside: constants, where the formula is read, side tensors.
template <class N> TILEFOLD_HD Value<N> read_value(const InstructionList& list,
                                                   const Instruction& instruction,
                                                   const Point<N>& at, const Value<N>* values) {
  Value<N> to;
  switch (instruction.op) {
    case Op::integer: to.integer = instruction.integer; break;
    case Op::real: to.real = instruction.real; break;
    case Op::truth: to.truth = instruction.integer != 0; break;
    case Op::query: to.integer = at.query; break;
    case Op::key: to.integer = at.key; break;
    case Op::offset: to.integer = at.place.offset; break;
    case Op::batch: to.integer = at.place.batch; break;
    case Op::query_head: to.integer = at.query_head; break;
    case Op::kv_head: to.integer = at.kv_head; break;
    case Op::query_length: to.integer = at.place.query_length; break;
    case Op::key_length: to.integer = at.place.key_length; break;
    case Op::score: to.real = at.score; break;
    default:  // Op::lookup; scalars have become constants
      if (instruction.kind == Kind::real)
        to.real = entry_of<N>(list.reals[instruction.integer], instruction, values);
      else
        to.integer = entry_of<N>(list.integers[instruction.integer], instruction, values);
  }
  return to;
}

/// The result of a list that is not empty.
template <class N>
TILEFOLD_HD Value<N> interpreted(const InstructionList& list, const Point<N>& at) {
  Value<N> values[Instruction::most_values], last;
  for (int i = 0; i < list.count; ++i) {
    const Instruction instruction = list.instructions[i];
    const unsigned char* from = instruction.from;
    last = is_operation(instruction.op)
               ? computed<N>(instruction.op, instruction.kind, values[from[0]], values[from[1]],
                             values[from[2]])
               : read_value<N>(list, instruction, at, values);
    values[instruction.to] = last;
  }
  return last;
}

}  // namespace tilefold::score
