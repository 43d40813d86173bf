// One element of a register fragment: a run-time base and an offset that unrolling makes a
// constant.
//
// A GPU kernel reads masks with Position, not with int: the comparison of two positions becomes
// `constant <= register`, one instruction an element, and Bit's logic does not branch.
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::score {

/// An element's answer. && and || evaluate both sides: no branch an element.
struct Bit {
  bool value;
  Bit() = default;
  TILEFOLD_HD constexpr Bit(bool v) : value(v) {}
  TILEFOLD_HD friend constexpr Bit operator&&(Bit a, Bit b) { return bool(a.value & b.value); }
  TILEFOLD_HD friend constexpr Bit operator||(Bit a, Bit b) { return bool(a.value | b.value); }
  TILEFOLD_HD friend constexpr Bit operator!(Bit a) { return !a.value; }
};
TILEFOLD_HD constexpr bool decided(Bit answer) { return answer.value; }

/// base + offset.
struct Position {
  int base, offset;
  Position() = default;
  TILEFOLD_HD constexpr Position(int b, int o = 0) : base(b), offset(o) {}
  TILEFOLD_HD constexpr int sum() const { return base + offset; }

  TILEFOLD_HD friend constexpr Position operator+(Position a, Position b) {
    return {a.base + b.base, a.offset + b.offset};
  }
  TILEFOLD_HD friend constexpr Position operator-(Position a, Position b) {
    return {a.base - b.base, a.offset - b.offset};
  }
  TILEFOLD_HD friend constexpr Position operator-(Position a) { return {-a.base, -a.offset}; }
  TILEFOLD_HD friend constexpr Position operator*(Position a, int b) {
    return {a.base * b, a.offset * b};
  }
  TILEFOLD_HD friend constexpr Bit operator<=(Position a, Position b) {
    return a.offset - b.offset <= b.base - a.base;
  }
  TILEFOLD_HD friend constexpr Bit operator<(Position a, Position b) {
    return a.offset - b.offset < b.base - a.base;
  }
  TILEFOLD_HD friend constexpr Bit operator>=(Position a, Position b) { return b <= a; }
  TILEFOLD_HD friend constexpr Bit operator>(Position a, Position b) { return b < a; }
  TILEFOLD_HD friend constexpr Bit operator==(Position a, Position b) {
    return a.offset - b.offset == b.base - a.base;
  }
  TILEFOLD_HD friend constexpr Bit operator!=(Position a, Position b) { return !(a == b); }
};

TILEFOLD_HD constexpr Position smaller(Position a, Position b) { return smaller(a.sum(), b.sum()); }
TILEFOLD_HD constexpr Position larger(Position a, Position b) { return larger(a.sum(), b.sum()); }
TILEFOLD_HD constexpr Position abs(Position a) { return abs(a.sum()); }
TILEFOLD_HD constexpr Position floor_div(Position a, int b) { return floor_div(a.sum(), b); }
TILEFOLD_HD constexpr Position floor_mod(Position a, int b) { return floor_mod(a.sum(), b); }

}  // namespace tilefold::score
