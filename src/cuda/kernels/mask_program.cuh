// Masks made of built-ins, as data: a range for what causal masks and windows say together, and a
// small postfix program for the rest. Read with int or Position it answers for an element, with
// Interval for a tile; the host reads the same code to plan and to test.
//
//   causal() && window(4095)      range [-4095, 0], no program
//   causal() || prefix(lengths)   no range, program: causal prefix either
#pragma once

#include "tilefold/score/masks.hpp"

namespace tilefold::cuda {

/// Bounds of k - q - offset, both included; positions, not indices.
struct RangeMask {
  static constexpr int unbounded_low = -2147483647 - 1, unbounded_high = 2147483647;
  int low = unbounded_low, high = unbounded_high;

  TILEFOLD_HD constexpr bool everything() const {
    return low == unbounded_low && high == unbounded_high;
  }
  template <class N> TILEFOLD_HD constexpr auto keep(N q, N k, score::Place at) const {
    // Positions and offsets lie within +-2^30: an unbounded side is never reached.
    const auto distance = k - q - N(at.offset);
    return N(low) <= distance && distance <= N(high);
  }
};

enum class MaskOp : int { everything, causal, window, prefix, document, both, either, negate };

struct MaskInstruction {
  MaskOp op;
  int left, right;  // window: its sides; prefix and document: left is the index of the table
};

/// Postfix: operands push an answer, both and either join the last two, negate turns the last.
struct MaskProgram {
  static constexpr int max_instructions = 16, max_tables = 4;
  // Two bits an answer in one 64-bit word.
  static constexpr int max_depth = 32;
  static_assert(max_instructions <= max_depth);

  int count = 0;  // of instructions; 0 keeps every key
  int tables_used = 0;
  MaskInstruction instructions[max_instructions];
  score::Lookup tables[max_tables];

  TILEFOLD_HD bool everything() const { return count == 0; }

  /// Truth::all or none for elements; Truth::some too where N is Interval.
  template <class N> TILEFOLD_HD score::Truth answer(N q, N k, score::Place at) const {
    unsigned long long stack = score::Truth::all;
    for (int i = 0; i < count; ++i) {
      const MaskInstruction& instruction = instructions[i];
      const unsigned top = stack & 3u, next = stack >> 2 & 3u;
      switch (instruction.op) {
        case MaskOp::both: stack = (stack >> 4 << 2) | (top < next ? top : next); break;
        case MaskOp::either: stack = (stack >> 4 << 2) | (top > next ? top : next); break;
        case MaskOp::negate: stack = (stack >> 2 << 2) | (2u - top); break;
        default: stack = stack << 2 | operand(instruction, q, k, at);
      }
    }
    return score::Truth(static_cast<score::Truth::Value>(stack & 3u));
  }

 private:
  TILEFOLD_HD static constexpr unsigned code(bool kept) { return kept ? 2u : 0u; }
  TILEFOLD_HD static constexpr unsigned code(score::Bit kept) { return kept.value ? 2u : 0u; }
  TILEFOLD_HD static constexpr unsigned code(score::Truth truth) { return unsigned(truth.value); }

  template <class N> TILEFOLD_HD unsigned operand(const MaskInstruction& instruction, N q, N k,
                                                  score::Place at) const {
    switch (instruction.op) {
      case MaskOp::causal: return code(score::Causal{}.keep(q, k, at));
      case MaskOp::window:
        return code(score::Window{instruction.left, instruction.right}.keep(q, k, at));
      case MaskOp::prefix: return code(score::Prefix{tables[instruction.left]}.keep(q, k, at));
      case MaskOp::document: return code(score::Document{tables[instruction.left]}.keep(q, k, at));
      default: return code(true);
    }
  }
};

/// A key is visible where both say so.
struct MaskData {
  RangeMask range;
  MaskProgram program;

  TILEFOLD_HD bool everything() const { return range.everything() && program.everything(); }
  TILEFOLD_HD bool keep(int q, int k, score::Place at) const {
    return range.keep(q, k, at) && program.answer(q, k, at).yes();
  }
  TILEFOLD_HD score::Truth classify(score::Interval q, score::Interval k, score::Place at) const {
    const score::Truth in_range = range.keep(q, k, at);
    if (in_range.no() || program.everything()) return in_range;
    return in_range && program.answer(q, k, at);
  }
};

}  // namespace tilefold::cuda
