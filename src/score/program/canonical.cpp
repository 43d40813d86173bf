// From an expression to a program: one node a value, constants folded, sums of positions ordered,
// comparisons turned so that each variable stands once.
#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstring>
#include <map>
#include <unordered_map>

#include "score/program/program.hpp"
#include "tilefold/error.hpp"

namespace tilefold::score {

namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  // FNV-1a over the eight bytes, then a final spread.
  for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (value >> (8 * byte) & 0xff)) * 0x100000001b3;
  return hash ^ hash >> 29;
}
constexpr std::uint64_t hash_seed = 0xcbf29ce484222325;

std::uint64_t bits_of_real(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

/// coefficient * node, ..., + constant, over nodes that lie within +-ScoreProgram::reach.
struct LinearForm {
  std::map<int, long long> terms;  // node -> coefficient, none of them 0
  long long constant = 0;

  void add(const LinearForm& other, long long times) {
    for (const auto& [node, coefficient] : other.terms)
      if ((terms[node] += times * coefficient) == 0) terms.erase(node);
    constant += times * other.constant;
  }
  /// Whether no order of adding the terms leaves +-2^29 (score::comparable).
  bool is_bounded() const {
    long long most = std::abs(constant);
    for (const auto& term : terms) most += std::abs(term.second) * ScoreProgram::reach;
    return most <= 1LL << 29;
  }
};

class Canonical {
 public:
  explicit Canonical(Purpose purpose) : purpose_(purpose) {}

  int add(const Expression& expression) {
    const ExpressionNode* node = expression.node().get();
    if (const auto found = done_.find(node); found != done_.end()) return found->second;
    const int made = visit(*node);
    done_.emplace(node, made);
    return made;
  }
  ScoreProgram take(int root);

 private:
  struct Entry {
    ProgramNode node;
    std::uint64_t hash;
  };

  int visit(const ExpressionNode& e);
  int leaf(const ExpressionNode& e);
  int operation(Op op, Kind kind, std::array<int, 4> operands, int count);
  int make(ProgramNode node);
  std::uint64_t name_hash(const ProgramNode& node) const;
  int constant(int value, Kind kind = Kind::integer);
  int real_constant(double value);

  const ProgramNode& at(int node) const { return entries_[std::size_t(node)].node; }
  bool is_constant(int node) const {
    return at(node).op == Op::integer || at(node).op == Op::real || at(node).op == Op::truth;
  }
  bool is_integer(int node, int value) const {
    return at(node).op == Op::integer && at(node).integer == value;
  }
  bool holds(int node) const { return at(node).op == Op::truth && at(node).integer == 1; }
  bool fails(int node) const { return at(node).op == Op::truth && at(node).integer == 0; }

  int folded(Op op, Kind kind, const std::array<int, 4>& operands, int count);
  int integer_identity(Op op, int a, int b);
  int truth_identity(Op op, int a, int b);
  int comparison(Op op, int a, int b);
  int choice(int condition, int a, int b);

  bool form_of(int node, LinearForm& form) const;
  int sum_of(const LinearForm& form);
  int sum_step(int sum, int node, long long coefficient);
  LinearForm part(const LinearForm& form, unsigned char varies) const;

  int slot(const std::shared_ptr<ScalarState>& scalar);
  int slot(const std::shared_ptr<SideTensorState>& tensor);

  Purpose purpose_;
  std::vector<Entry> entries_;
  std::unordered_multimap<std::uint64_t, int> by_hash_;
  std::unordered_map<const ExpressionNode*, int> done_;
  std::unordered_map<int, LinearForm> forms_;  // of affine sums
  std::vector<std::shared_ptr<ScalarState>> scalars_;
  std::vector<std::shared_ptr<SideTensorState>> tensors_;
};

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

template <class T> int slot_in(std::vector<std::shared_ptr<T>>& all, const std::shared_ptr<T>& one,
                               int most, const char* what) {
  const auto found = std::find(all.begin(), all.end(), one);
  if (found != all.end()) return int(found - all.begin());
  for (const auto& other : all)
    if (other->name == one->name)
      refuse(std::string("two ") + what + "s of the formula are called " + one->name);
  if (int(all.size()) == most)
    refuse("the formula reads more than " + std::to_string(most) + " " + what + "s");
  all.push_back(one);
  return int(all.size()) - 1;
}
/// A name that stands for a scalar and for a tensor could not be read back.
template <class T>
void require_no_other(const std::vector<std::shared_ptr<T>>& others, const std::string& name) {
  for (const auto& other : others)
    if (other->name == name) refuse("a scalar and a side tensor of the formula are called " + name);
}
int Canonical::slot(const std::shared_ptr<ScalarState>& scalar) {
  require_no_other(tensors_, scalar->name);
  return slot_in(scalars_, scalar, ScoreProgram::max_scalars, "scalar");
}
int Canonical::slot(const std::shared_ptr<SideTensorState>& tensor) {
  require_no_other(scalars_, tensor->name);
  return slot_in(tensors_, tensor, ScoreProgram::max_tensors, "side tensor");
}

/// What a node's integer stands for: itself, or the name of a scalar or side tensor.
std::uint64_t Canonical::name_hash(const ProgramNode& node) const {
  const auto slot = std::size_t(node.integer);
  const std::string* name = nullptr;
  if (node.op == Op::lookup) name = &tensors_[slot]->name;
  if (node.op == Op::integer_scalar || node.op == Op::real_scalar) name = &scalars_[slot]->name;
  if (name == nullptr) return std::uint64_t(std::uint32_t(node.integer));
  std::uint64_t hash = hash_seed;
  for (const char c : *name) hash = mixed(hash, std::uint64_t(static_cast<unsigned char>(c)));
  return hash;
}

/// The one node that is like this, made where there is none.
int Canonical::make(ProgramNode node) {
  std::uint64_t hash = mixed(hash_seed, std::uint64_t(node.op) << 8 | std::uint64_t(node.kind));
  // Slots are numbered as the formula is walked; names do not depend on that.
  hash = mixed(hash, name_hash(node));
  hash = mixed(hash, bits_of_real(node.real));
  for (int i = 0; i < node.operands; ++i)
    hash = mixed(hash, entries_[std::size_t(node.operand[i])].hash);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto found = begin; found != end; ++found) {
    const ProgramNode& other = at(found->second);
    if (other.op == node.op && other.kind == node.kind && other.integer == node.integer &&
        bits_of_real(other.real) == bits_of_real(node.real) && other.operands == node.operands &&
        std::equal(other.operand, other.operand + other.operands, node.operand))
      return found->second;
  }
  if (int(entries_.size()) == 4 * ScoreProgram::max_nodes)
    refuse("the formula has more than " + std::to_string(ScoreProgram::max_nodes) + " operations");
  entries_.push_back({node, hash});
  by_hash_.emplace(hash, int(entries_.size()) - 1);
  return int(entries_.size()) - 1;
}

int Canonical::constant(int value, Kind kind) {
  ProgramNode node{};
  node.op = kind == Kind::truth ? Op::truth : Op::integer;
  node.kind = kind;
  node.integer = value;
  return make(node);
}
int Canonical::real_constant(double value) {
  ProgramNode node{};
  node.op = Op::real;
  node.kind = Kind::real;
  node.real = value;
  return make(node);
}

unsigned char varies_of(Op op) {
  return op == Op::query   ? by_query
         : op == Op::key   ? by_key
         : op == Op::score ? by_both
                           : by_nothing;
}

int Canonical::leaf(const ExpressionNode& e) {
  switch (e.op) {
    case Op::integer: return constant(e.integer);
    case Op::truth: return constant(e.integer, Kind::truth);
    case Op::real: return real_constant(e.real_value);
    default: break;
  }
  if (e.op == Op::score && purpose_ == Purpose::mask)
    refuse("a mask reads the score s: it must be made of positions, scalars and side tensors");
  ProgramNode node{};
  node.op = e.op;
  node.kind = e.kind;
  node.varies = varies_of(e.op);
  node.affine = e.kind == Kind::integer;
  if (e.scalar) node.integer = slot(e.scalar);
  return make(node);
}

int Canonical::visit(const ExpressionNode& e) {
  if (e.operands.empty()) return leaf(e);
  std::array<int, 4> operands{};
  const int count = int(e.operands.size());
  for (int i = 0; i < count; ++i) operands[std::size_t(i)] = add(e.operands[std::size_t(i)]);
  if (e.op != Op::lookup) return operation(e.op, e.kind, operands, count);
  ProgramNode node{};
  node.op = Op::lookup;
  node.kind = e.kind;
  node.operands = count;
  node.integer = slot(e.tensor);
  for (int i = 0; i < count; ++i) {
    node.operand[i] = operands[std::size_t(i)];
    node.varies |= at(node.operand[i]).varies;
  }
  return make(node);
}

int Canonical::operation(Op op, Kind kind, std::array<int, 4> operands, int count) {
  const int a = operands[0], b = operands[1];
  if (op == Op::floor_divide || op == Op::modulo || op == Op::divide)
    if (is_integer(b, 0) || (at(b).op == Op::real && at(b).real == 0))
      refuse(std::string("division by zero: the right side of '") + row_of(op).sign +
             "' is always 0");
  if (const int known = folded(op, kind, operands, count); known >= 0) return known;
  const bool integers = at(a).kind == Kind::integer;
  if (op == Op::negate) {
    const ProgramNode inner = at(a);
    if (inner.op == Op::negate) return inner.operand[0];
    const bool ordered = inner.op == Op::less || inner.op == Op::less_equal;
    if (ordered && at(inner.operand[0]).kind == Kind::integer)  // reals may be NaN
      return comparison(inner.op == Op::less ? Op::less_equal : Op::less, inner.operand[1],
                        inner.operand[0]);
  }
  if (op == Op::both || op == Op::either)
    if (const int known = truth_identity(op, a, b); known >= 0) return known;
  if (op == Op::select) return choice(operands[0], operands[1], operands[2]);
  if ((op == Op::minimum || op == Op::maximum) && a == b) return a;
  if (row_of(op).signature == Signature::compare && integers) return comparison(op, a, b);
  if (integers && kind == Kind::integer && count == 2)
    if (const int known = integer_identity(op, a, b); known >= 0) return known;

  ProgramNode node{};
  node.op = op;
  node.kind = kind;
  node.operands = count;
  for (int i = 0; i < count; ++i) {
    node.operand[i] = operands[std::size_t(i)];
    node.varies |= at(operands[std::size_t(i)]).varies;
  }
  if (row_of(op).commutes && entries_[std::size_t(a)].hash > entries_[std::size_t(b)].hash)
    std::swap(node.operand[0], node.operand[1]);
  if (kind != Kind::integer || count == 0) return make(node);
  // A sum of positions, whatever the order it was written in, is one chain of additions.
  LinearForm form, other;
  bool linear = false;
  if (op == Op::negative && form_of(a, other)) {
    form.add(other, -1);
    linear = true;
  } else if ((op == Op::add || op == Op::subtract) && form_of(a, form) && form_of(b, other)) {
    form.add(other, op == Op::add ? 1 : -1);
    linear = true;
  } else if (op == Op::multiply && (is_constant(a) || is_constant(b))) {
    const int factor = is_constant(a) ? at(a).integer : at(b).integer;
    linear = form_of(is_constant(a) ? b : a, other);
    if (linear) form.add(other, factor);
  }
  return linear && form.is_bounded() ? sum_of(form) : make(node);
}

template <class T> int compared(Op op, T a, T b) {
  return op == Op::less ? a < b : op == Op::less_equal ? a <= b : a == b;
}

/// The value where all operands are constants, else -1. Reals stay as they are where folding would
/// round otherwise than the element's own arithmetic: only what is exact in double.
int Canonical::folded(Op op, Kind kind, const std::array<int, 4>& operands, int count) {
  for (int i = 0; i < count; ++i)
    if (!is_constant(operands[std::size_t(i)])) return -1;
  const ProgramNode &x = at(operands[0]), &y = at(operands[std::size_t(count > 1)]);
  if (op == Op::select) return operands[x.integer != 0 ? 1 : 2];
  if (op == Op::real_of) return real_constant(x.integer);
  if (x.kind == Kind::real) {
    if (op == Op::negative) return real_constant(-x.real);
    if (row_of(op).signature != Signature::compare) return -1;
    const int single = compared(op, float(x.real), float(y.real));
    return single == compared(op, x.real, y.real) ? constant(single, Kind::truth) : -1;
  }
  if (row_of(op).signature == Signature::compare)
    return constant(compared(op, x.integer, y.integer), Kind::truth);
  const int value = with_operation<float>(op, [&](auto operation, auto constant) -> int {
    constexpr Signature signature = decltype(constant)::signature;
    constexpr bool single = decltype(constant)::operands == 1;
    if constexpr (signature == Signature::truths && single)
      return operation.of(x.integer != 0) ? 1 : 0;
    else if constexpr (signature == Signature::truths)
      return operation.of(x.integer != 0, y.integer != 0) ? 1 : 0;
    else if constexpr (signature == Signature::numbers && single)
      return operation.of(x.integer);
    else if constexpr (signature == Signature::numbers || signature == Signature::integers)
      return operation.of(x.integer, y.integer);
    else if constexpr (signature == Signature::bit)
      return operation.of(x.integer, y.integer) ? 1 : 0;
    else
      return 0;  // of reals, or folded above
  });
  return constant(value, kind);
}

int Canonical::integer_identity(Op op, int a, int b) {
  switch (op) {
    case Op::multiply:
      if (is_integer(a, 0) || is_integer(b, 0)) return constant(0);
      return is_integer(a, 1) ? b : is_integer(b, 1) ? a : -1;
    case Op::floor_divide: return is_integer(b, 1) ? a : -1;
    case Op::modulo: return is_integer(b, 1) ? constant(0) : -1;
    case Op::add: return is_integer(a, 0) ? b : is_integer(b, 0) ? a : -1;
    case Op::subtract:
    case Op::shift_left:
    case Op::shift_right: return is_integer(b, 0) ? a : -1;
    default: return -1;
  }
}

int Canonical::truth_identity(Op op, int a, int b) {
  if (a == b) return a;
  const bool both = op == Op::both;
  if (holds(a)) return both ? b : a;
  if (holds(b)) return both ? a : b;
  if (fails(a)) return both ? a : b;
  if (fails(b)) return both ? b : a;
  return -1;
}

int Canonical::choice(int condition, int a, int b) {
  if (is_constant(condition)) return at(condition).integer != 0 ? a : b;
  if (a == b) return a;
  ProgramNode node{};
  node.op = Op::select;
  node.kind = at(a).kind;
  node.operands = 3;
  node.operand[0] = condition;
  node.operand[1] = a;
  node.operand[2] = b;
  node.varies = at(condition).varies | at(a).varies | at(b).varies;
  return make(node);
}

/// Where both sides are sums of positions, what the keys say stands alone on one side:
/// `0 <= q + off - k` and `k - off <= q` are one node, of which intervals know exact bounds.
int Canonical::comparison(Op op, int a, int b) {
  LinearForm form, right;
  const bool linear = form_of(a, form) && form_of(b, right);
  if (linear) form.add(right, -1);
  const auto node_of = [&](Op relation, int left, int other) {
    ProgramNode node{};
    node.op = relation;
    node.kind = Kind::truth;
    node.operands = 2;
    node.operand[0] = left;
    node.operand[1] = other;
    node.varies = at(left).varies | at(other).varies;
    return make(node);
  };
  if (!linear || !form.is_bounded()) {
    if (a == b) return constant(op != Op::less, Kind::truth);
    if (op != Op::equal) return node_of(op, a, b);
    const bool ordered = entries_[std::size_t(a)].hash <= entries_[std::size_t(b)].hash;
    return node_of(op, ordered ? a : b, ordered ? b : a);
  }
  // form < 0 is form + 1 <= 0.
  if (op == Op::less) form.constant += 1;
  LinearForm lead = part(form, by_key);
  if (lead.terms.empty()) lead = part(form, by_query);
  if (lead.terms.empty()) lead.terms = form.terms;
  if (lead.terms.empty())
    return constant(op == Op::equal ? form.constant == 0 : form.constant <= 0, Kind::truth);
  // The side that leads has a positive first coefficient: form = +-(lead - rest). First is a matter
  // of names, not of the order in which the formula was written.
  const auto first =
      std::min_element(lead.terms.begin(), lead.terms.end(), [&](const auto& x, const auto& y) {
        return entries_[std::size_t(x.first)].hash < entries_[std::size_t(y.first)].hash;
      });
  const long long sign = first->second > 0 ? 1 : -1;
  LinearForm rest, leading;
  leading.add(lead, sign);
  rest.add(form, -sign);
  rest.add(lead, sign);
  const int left = sum_of(leading), other = sum_of(rest);
  if (op == Op::equal) return node_of(Op::equal, left, other);
  return sign > 0 ? node_of(Op::less_equal, left, other) : node_of(Op::less_equal, other, left);
}

LinearForm Canonical::part(const LinearForm& form, unsigned char varies) const {
  LinearForm some;
  for (const auto& [node, coefficient] : form.terms)
    if (at(node).varies == varies) some.terms[node] = coefficient;
  return some;
}

bool Canonical::form_of(int node, LinearForm& form) const {
  const ProgramNode& n = at(node);
  if (n.op == Op::integer) {
    form = {};
    form.constant = n.integer;
    return true;
  }
  if (!n.affine) return false;
  form = {};
  if (const auto found = forms_.find(node); found != forms_.end())
    form = found->second;
  else
    form.terms[node] = 1;
  return true;
}

int Canonical::sum_step(int sum, int node, long long coefficient) {
  ProgramNode next{};
  next.kind = Kind::integer;
  next.affine = true;
  const auto joined = [&](Op op, int a, int b) {
    next.op = op;
    next.operands = 2;
    next.operand[0] = a;
    next.operand[1] = b;
    next.varies = at(a).varies | at(b).varies;
    return make(next);
  };
  const long long size = std::abs(coefficient);
  const int term = size == 1 ? node : joined(Op::multiply, node, constant(int(size)));
  if (sum >= 0) return joined(coefficient > 0 ? Op::add : Op::subtract, sum, term);
  if (coefficient > 0) return term;
  return joined(Op::subtract, constant(0), term);
}

/// What is the same for many elements comes first, so that it is one value; then positive terms, so
/// that a sum begins with one.
int Canonical::sum_of(const LinearForm& form) {
  std::vector<std::pair<int, long long>> terms(form.terms.begin(), form.terms.end());
  const auto is_fixed = [&](int node) { return at(node).varies == by_nothing; };
  int fixed = form.constant != 0 ? 1 : 0;
  for (const auto& term : terms) fixed += is_fixed(term.first) ? 1 : 0;
  std::sort(terms.begin(), terms.end(), [&](const auto& a, const auto& b) {
    const auto key = [&](const auto& term) {
      const bool first = is_fixed(term.first) && (fixed > 1 || term.second > 0);
      return std::tuple(!first, term.second < 0, at(term.first).varies, at(term.first).op,
                        entries_[std::size_t(term.first)].hash);
    };
    return key(a) < key(b);
  });
  int sum = -1;
  bool constant_waits = form.constant != 0;
  const auto add_constant = [&] {
    const int size = constant(int(std::abs(form.constant)));
    sum = sum < 0 ? constant(int(form.constant)) : sum_step(sum, size, form.constant > 0 ? 1 : -1);
    constant_waits = false;
  };
  for (const auto& [node, coefficient] : terms) {
    const bool next_varies = at(node).varies != by_nothing;
    if (constant_waits && (sum >= 0 ? next_varies : coefficient < 0)) add_constant();
    sum = sum_step(sum, node, coefficient);
  }
  if (constant_waits) add_constant();
  if (sum < 0) sum = constant(0);
  if (at(sum).op != Op::integer) forms_[sum] = form;
  return sum;
}

/// What the root reaches, in the order of a walk from it, with slots in the order of their use.
ScoreProgram Canonical::take(int root) {
  ScoreProgram program;
  std::vector<int> place(entries_.size(), -1);
  std::vector<int> scalar_slot(scalars_.size(), -1), tensor_slot(tensors_.size(), -1);
  std::vector<std::pair<int, int>> walk = {{root, 0}};
  const auto placed = [](auto& slots, int old, const auto& from, auto& to) {
    int& slot = slots[std::size_t(old)];
    if (slot < 0) {
      slot = int(to.size());
      to.push_back(from[std::size_t(old)]);
    }
    return slot;
  };
  while (!walk.empty()) {
    auto& [node, next] = walk.back();
    if (place[std::size_t(node)] >= 0) {
      walk.pop_back();
      continue;
    }
    if (next < at(node).operands) {
      walk.push_back({at(node).operand[next++], 0});
      continue;
    }
    ProgramNode moved = at(node);
    for (int i = 0; i < moved.operands; ++i)
      moved.operand[i] = place[std::size_t(moved.operand[i])];
    if (moved.op == Op::integer_scalar || moved.op == Op::real_scalar)
      moved.integer = placed(scalar_slot, moved.integer, scalars_, program.scalars);
    if (moved.op == Op::lookup) {
      moved.integer = placed(tensor_slot, moved.integer, tensors_, program.tensors);
      program.blocked.resize(program.tensors.size());
      for (int i = 0; i < moved.operands; ++i)
        if (program.nodes[std::size_t(moved.operand[i])].varies != by_nothing)
          program.blocked[std::size_t(moved.integer)] |= 1u << i;
    }
    place[std::size_t(node)] = int(program.nodes.size());
    program.nodes.push_back(moved);
    walk.pop_back();
  }
  if (program.nodes.size() > std::size_t(ScoreProgram::max_nodes))
    refuse("the formula has more than " + std::to_string(ScoreProgram::max_nodes) + " operations");
  return program;
}

}  // namespace

ScoreProgram make_program(const Expression& expression, Purpose purpose) {
  const Kind kind = expression.node()->kind;
  if (purpose == Purpose::mask && kind != Kind::truth)
    refuse("a mask must be a truth: " + shown(expression) + " is " + name(kind));
  if (purpose == Purpose::score_change && kind == Kind::truth)
    refuse("a score must be a number: " + shown(expression) + " is a truth");
  Canonical canonical(purpose);
  return canonical.take(
      canonical.add(purpose == Purpose::score_change ? real(expression) : expression));
}

unsigned ScoreProgram::revision() const {
  unsigned all = 0;
  for (const auto& scalar : scalars) all += scalar->revision;
  for (const auto& tensor : tensors) all += tensor->revision;
  return all;
}

const TensorView* ScoreProgram::device_tensor() const {
  for (const auto& tensor : tensors)
    if (!tensor->on_host()) return &tensor->values;
  return nullptr;
}

std::uint64_t ScoreProgram::hash() const {
  std::uint64_t hash = hash_seed;
  for (const ProgramNode& node : nodes) {
    hash = mixed(hash, std::uint64_t(node.op) << 8 | std::uint64_t(node.kind));
    hash = mixed(hash, std::uint64_t(std::uint32_t(node.integer)));
    hash = mixed(hash, bits_of_real(node.real));
    for (int i = 0; i < node.operands; ++i) hash = mixed(hash, std::uint64_t(node.operand[i]));
  }
  return hash;
}

}  // namespace tilefold::score
