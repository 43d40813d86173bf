#include "score/program/range_of.hpp"

#include <algorithm>
#include <climits>
#include <optional>

namespace tilefold::score {

namespace {

/// query * q + key * k + offset * off + constant.
struct Sum {
  int query = 0, key = 0, offset = 0;
  long long constant = 0;
};

Sum joined(const Sum& a, const Sum& b, int sign) {
  return {a.query + sign * b.query, a.key + sign * b.key, a.offset + sign * b.offset,
          a.constant + sign * b.constant};
}

std::optional<Sum> sum_of(const ScoreProgram& program, int at) {
  const ProgramNode& node = program.nodes[std::size_t(at)];
  switch (node.op) {
    case Op::integer: return Sum{0, 0, 0, node.integer};
    case Op::query: return Sum{1, 0, 0, 0};
    case Op::key: return Sum{0, 1, 0, 0};
    case Op::offset: return Sum{0, 0, 1, 0};
    case Op::add:
    case Op::subtract: break;
    default: return std::nullopt;
  }
  if (!node.affine) return std::nullopt;
  const auto a = sum_of(program, node.operand[0]), b = sum_of(program, node.operand[1]);
  if (!a || !b) return std::nullopt;
  return joined(*a, *b, node.op == Op::add ? 1 : -1);
}

/// Bounds of k - (q + off), both included.
struct Bounds {
  long long low = LLONG_MIN, high = LLONG_MAX;
};

bool narrow(const ScoreProgram& program, int at, Bounds& bounds) {
  const ProgramNode& node = program.nodes[std::size_t(at)];
  if (node.op == Op::both)
    return narrow(program, node.operand[0], bounds) && narrow(program, node.operand[1], bounds);
  if (node.op != Op::less_equal) return false;
  const auto a = sum_of(program, node.operand[0]), b = sum_of(program, node.operand[1]);
  if (!a || !b) return false;
  const Sum d = joined(*a, *b, -1);  // d <= 0
  if (d.key == 1 && d.query == -1 && d.offset == -1)
    bounds.high = std::min(bounds.high, -d.constant);
  else if (d.key == -1 && d.query == 1 && d.offset == 1)
    bounds.low = std::max(bounds.low, d.constant);
  else
    return false;
  return true;
}

}  // namespace

MaskDescription description_of(const ScoreProgram& mask) {
  using What = MaskDescription::Kind;
  Bounds bounds;
  if (!narrow(mask, int(mask.nodes.size()) - 1, bounds)) return {};
  const bool left = bounds.low != LLONG_MIN, right = bounds.high != LLONG_MAX;
  // A window's sides are 0 or more; a negative one is none.
  if ((left && bounds.low > 0) || (right && bounds.high < 0)) return {};
  if (!left && bounds.high == 0) return {.kind = What::causal};
  return {.kind = What::window,
          .left = left ? int(-bounds.low) : -1,
          .right = right ? int(bounds.high) : -1};
}

}  // namespace tilefold::score
