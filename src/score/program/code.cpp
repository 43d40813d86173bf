#include "score/program/code.hpp"

#include <cmath>
#include <cstdio>
#include <cstring>

namespace tilefold::score {

namespace {

static_assert(sizeof(SideArray<int>) == sizeof(SideArray<float>));

std::string literal(int value) {
  if (value == op::least) return "(-2147483647 - 1)";
  return value < 0 ? "(" + std::to_string(value) + ")" : std::to_string(value);
}
/// Exact: every digit of a hexadecimal one counts.
std::string literal(double value) {
  if (std::isinf(value)) return value > 0 ? "infinity<Plain>()" : "(-infinity<Plain>())";
  char digits[64];
  std::snprintf(digits, sizeof digits, "%a", value);
  return "Plain(" + std::string(digits) + ")";
}

/// How often a query and a key are counted in a sum of positions.
struct Share {
  int query = 0, key = 0;
};

class Writer {
 public:
  Writer(const ScoreProgram& program, Purpose purpose)
      : program_(program), purpose_(purpose), shares_(program.nodes.size()) {}
  std::string functor();
  /// When functor() has been called.
  int query_block() const;

 private:
  bool is_mask() const { return purpose_ == Purpose::mask; }
  const ProgramNode& node(int at) const { return program_.nodes[std::size_t(at)]; }
  bool varies(int at) const { return node(at).varies != by_nothing; }
  /// A sum of positions that the reading's own number type holds.
  bool is_position(int at) const {
    return node(at).kind == Kind::integer && node(at).affine && varies(at);
  }
  /// A position as a real, in two parts.
  bool is_linear(int at) const {
    return node(at).op == Op::real_of && is_position(node(at).operand[0]);
  }

  static std::string name(int at) { return "v" + std::to_string(at); }
  std::string position(int at) const;
  std::string integer(int at) const;
  std::string real(int at) const;
  std::string truth(int at) const;
  std::string value(int at, Kind kind) const;

  void note_share(int at);
  std::string leaf(const ProgramNode& n) const;
  std::string entry(const ProgramNode& n) const;
  std::string sum(const ProgramNode& n) const;
  std::string comparison(const ProgramNode& n) const;
  int cap_of(const ProgramNode& n) const;
  int power_of(const ProgramNode& n) const;
  std::string uniform(const ProgramNode& n) const;
  std::string operation(const ProgramNode& n) const;
  std::string statement(int at);
  std::string members() const;

  const ScoreProgram& program_;
  Purpose purpose_;
  std::vector<Share> shares_;
};

// An operand in the type that an operation of varying values takes.
std::string Writer::position(int at) const {
  if (is_position(at)) return name(at);
  const ProgramNode& n = node(at);
  const bool small = n.affine || (n.op == Op::integer && comparable(n.integer) == n.integer);
  return small ? "N(" + name(at) + ")" : "N(comparable(" + name(at) + "))";
}
std::string Writer::integer(int at) const {
  if (is_position(at)) return "integer(" + name(at) + ")";
  return varies(at) ? name(at) : "Integer(" + name(at) + ")";
}
std::string Writer::real(int at) const {
  if (is_linear(at)) return "flat(" + name(at) + ")";
  return varies(at) ? name(at) : "Real(" + name(at) + ")";
}
std::string Writer::truth(int at) const {
  return varies(at) ? name(at) : "Answer(" + name(at) + ")";
}
std::string Writer::value(int at, Kind kind) const {
  return kind == Kind::real ? real(at) : kind == Kind::integer ? integer(at) : truth(at);
}

void Writer::note_share(int at) {
  const ProgramNode& n = node(at);
  Share& share = shares_[std::size_t(at)];
  if (n.op == Op::query) share.query = 1;
  if (n.op == Op::key) share.key = 1;
  const Share a = n.operands > 0 ? shares_[std::size_t(n.operand[0])] : Share{};
  const Share b = n.operands > 1 ? shares_[std::size_t(n.operand[1])] : Share{};
  const int times = n.op == Op::multiply ? node(n.operand[1]).integer : 1;
  const int sign = n.op == Op::subtract ? -1 : 1;
  if (n.op == Op::multiply) share = {a.query * times, a.key * times};
  if (n.op == Op::add || n.op == Op::subtract)
    share = {a.query + sign * b.query, a.key + sign * b.key};
}

std::string Writer::leaf(const ProgramNode& n) const {
  switch (n.op) {
    case Op::integer: return literal(n.integer);
    case Op::truth: return n.integer != 0 ? "true" : "false";
    case Op::real: return literal(n.real);
    case Op::integer_scalar: return "scalar" + std::to_string(n.integer);
    case Op::real_scalar: return "Plain(scalar" + std::to_string(n.integer) + ")";
    case Op::query: return "q";
    case Op::key: return "k";
    case Op::offset: return "at.offset";
    case Op::batch: return "at.batch";
    case Op::query_head: return "at.query_head";
    case Op::kv_head: return "at.kv_head";
    case Op::query_length: return "at.query_length";
    case Op::key_length: return "at.key_length";
    default: return "s";
  }
}

/// A last index that is q, k or their distance is read as a position: one address serves all
/// elements of a thread. Other sums reach past the padding of a row (padded_element).
std::string Writer::entry(const ProgramNode& n) const {
  std::string text = "tensor" + std::to_string(n.integer) + ".at(";
  for (int i = 0; i < n.operands; ++i) {
    const int at = n.operand[i];
    const Share share = shares_[std::size_t(at)];
    const bool padded = i + 1 == n.operands && is_position(at) &&
                        ((share.key == 0 && share.query == 1) ||
                         (share.key == 1 && (share.query == 0 || share.query == -1)));
    const bool plain = n.varies == by_nothing;
    text += (i > 0 ? ", " : "") + (padded ? name(at) : plain ? name(at) : integer(at));
  }
  text += ")";
  if (n.kind != Kind::real) return text;
  return (n.varies == by_nothing ? "Plain(" : "Real(") + text + ")";
}

std::string Writer::sum(const ProgramNode& n) const {
  if (n.op == Op::multiply) return name(n.operand[0]) + " * " + literal(node(n.operand[1]).integer);
  return position(n.operand[0]) + (n.op == Op::add ? " + " : " - ") + position(n.operand[1]);
}

std::string call(Op op, const std::string& arguments) {
  const std::string type = op == Op::real_of ? "RealOf<Real>" : row_of(op).code;
  return "op::" + type + "::of(" + arguments + ")";
}

/// Of sums of positions where one side is one: a difference of constants against one register.
std::string Writer::comparison(const ProgramNode& n) const {
  const int a = n.operand[0], b = n.operand[1];
  const bool positions =
      (is_position(a) && (is_position(b) || !varies(b))) || (is_position(b) && !varies(a));
  if (positions) return "Answer(" + call(n.op, position(a) + ", " + position(b)) + ")";
  const Kind kind = node(a).kind;
  return "Answer(" + call(n.op, value(a, kind) + ", " + value(b, kind)) + ")";
}

/// The power of two that a floor division or its remainder divides by; -1 of others.
int Writer::power_of(const ProgramNode& n) const {
  if (n.op != Op::floor_divide && n.op != Op::modulo) return -1;
  const ProgramNode& by = node(n.operand[1]);
  if (by.op != Op::integer || by.integer <= 0 || (by.integer & (by.integer - 1)) != 0) return -1;
  int power = 0;
  while (by.integer >> power != 1) ++power;
  return power;
}

/// Of cap * tanh(x / cap), with a cap that does not vary; -1 of others.
int Writer::cap_of(const ProgramNode& n) const {
  // The fast form is off by a part of the cap, which a comparison in a mask would see near 0.
  if (is_mask() || n.op != Op::multiply || n.kind != Kind::real) return -1;
  for (int i = 0; i < 2; ++i) {
    const ProgramNode& curve = node(n.operand[i]);
    const int cap = n.operand[1 - i];
    if (curve.op != Op::tanh || varies(cap)) continue;
    const ProgramNode& inner = node(curve.operand[0]);
    if (inner.op == Op::divide && inner.operand[1] == cap) return cap;
  }
  return -1;
}

std::string Writer::uniform(const ProgramNode& n) const {
  std::string arguments;
  for (int i = 0; i < n.operands; ++i) arguments += (i > 0 ? ", " : "") + name(n.operand[i]);
  const std::string text = call(n.op, arguments);
  // Reals that are the same for all elements are plain ones, whatever the reading.
  return n.op == Op::real_of ? "Plain(" + name(n.operand[0]) + ")" : text;
}

std::string Writer::operation(const ProgramNode& n) const {
  if (n.varies == by_nothing) return uniform(n);
  if (n.kind == Kind::integer && n.affine) return sum(n);
  const int a = n.operand[0];
  switch (row_of(n.op).signature) {
    case Signature::compare: return comparison(n);
    case Signature::bit:
      return "Answer(" + call(n.op, integer(a) + ", " + integer(n.operand[1])) + ")";
    case Signature::to_real: return call(n.op, is_position(a) ? name(a) : integer(a));
    case Signature::to_whole: return call(n.op, real(a));
    case Signature::choice:
      return call(
          n.op, truth(a) + ", " + value(n.operand[1], n.kind) + ", " + value(n.operand[2], n.kind));
    default: break;
  }
  if (const int power = power_of(n); power >= 0)
    return std::string("op::") + row_of(n.op).code + "::by_power<" + std::to_string(power) + ">(" +
           integer(a) + ")";
  if (n.op == Op::divide && !varies(n.operand[1]))
    return "op::Divide::by(" + real(a) + ", " + real(n.operand[1]) + ")";
  if (const int cap = cap_of(n); cap >= 0) {
    const ProgramNode& curve = node(n.operand[n.operand[0] == cap ? 1 : 0]);
    return "op::Tanh::capped(" + real(node(curve.operand[0]).operand[0]) + ", " + real(cap) + ")";
  }
  // The product of a slope and a position's base leaves the loop over elements.
  if (n.op == Op::multiply && n.kind == Kind::real)
    for (int i = 0; i < 2; ++i)
      if (is_linear(n.operand[i]) && !varies(n.operand[1 - i]))
        return call(n.op, "Real(" + name(n.operand[1 - i]) + "), " + name(n.operand[i]));
  std::string arguments;
  for (int i = 0; i < n.operands; ++i)
    arguments += (i > 0 ? ", " : "") + value(n.operand[i], n.kind);
  return call(n.op, arguments);
}

std::string Writer::statement(int at) {
  const ProgramNode& n = node(at);
  if (n.affine || n.op == Op::query || n.op == Op::key) note_share(at);
  const std::string right = is_operation(n.op)   ? operation(n)
                            : n.op == Op::lookup ? entry(n)
                                                 : leaf(n);
  return "    [[maybe_unused]] const auto " + name(at) + " = " + right + ";\n";
}

std::string Writer::members() const {
  std::string text;
  for (std::size_t i = 0; i < program_.tensors.size(); ++i)
    text += std::string("  SideArray<") + (program_.tensors[i]->holds_reals() ? "float" : "int") +
            "> tensor" + std::to_string(i) + ";\n";
  for (std::size_t i = 0; i < program_.scalars.size(); ++i)
    text += std::string("  ") + (program_.scalars[i]->kind == Kind::real ? "float" : "int") +
            " scalar" + std::to_string(i) + ";\n";
  return text;
}

std::string Writer::functor() {
  const std::string positions =
      "[[maybe_unused]] N q, [[maybe_unused]] N k, [[maybe_unused]] Place at";
  std::string text = "struct Formula {\n" + members();
  text +=
      is_mask()
          ? "  template <class N> TILEFOLD_HD auto keep(" + positions +
                ") const {\n"
                "    using Plain [[maybe_unused]] = float;\n"
                "    using Real [[maybe_unused]] = typename ReadingOf<N>::Real;\n"
          : "  template <class S, class N>\n"
            "  TILEFOLD_HD S change([[maybe_unused]] S s, " +
                positions +
                ") const {\n"
                "    using Plain [[maybe_unused]] = typename ::tilefold::score::Plain<S>::type;\n"
                "    using Real [[maybe_unused]] = S;\n";
  text +=
      "    using Integer [[maybe_unused]] = typename ReadingOf<N>::Integer;\n"
      "    using Answer [[maybe_unused]] = typename ReadingOf<N>::Answer;\n";
  for (int i = 0; i < int(program_.nodes.size()); ++i) text += statement(i);
  const int root = int(program_.nodes.size()) - 1;
  return text + "    return " + (is_mask() ? "Answer(" : "S(") + value(root, program_.root().kind) +
         ");\n  }\n};";
}

int Writer::query_block() const {
  int block = 0;
  for (const ProgramNode& n : program_.nodes) {
    if (n.op != Op::floor_divide || node(n.operand[1]).op != Op::integer) continue;
    const bool of_query =
        is_position(n.operand[0]) && shares_[std::size_t(n.operand[0])].query != 0;
    if (of_query) block = larger(block, node(n.operand[1]).integer);
  }
  return block;
}

}  // namespace

FormulaCode code_of_program(const ScoreProgram& program, Purpose purpose) {
  const std::size_t tensors = program.tensors.size(), scalars = program.scalars.size();
  FormulaCode code;
  Writer writer(program, purpose);
  code.definitions = writer.functor();
  code.query_block = writer.query_block();
  for (const ProgramNode& node : program.nodes) code.operations += node.operands > 0;
  code.type = "Formula";
  code.alignment = tensors > 0 ? alignof(SideArray<int>) : scalars > 0 ? alignof(int) : 1;
  const std::size_t bytes = tensors * sizeof(SideArray<int>) + scalars * sizeof(int);
  code.size = bytes == 0 ? 1 : (bytes + code.alignment - 1) / code.alignment * code.alignment;
  return code;
}

void write_program_arguments(const BoundProgram& bound, void* bytes, const DeviceCopies& tensors) {
  const ScoreProgram& program = bound.program();
  auto* to = static_cast<unsigned char*>(bytes);
  const auto put = [&](const auto& value) {
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  };
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    if (program.tensors[i]->holds_reals()) {
      SideArray<float> array = bound.reals(int(i));
      tensors(array, program.tensors[i]->values);
      put(array);
    } else {
      SideArray<int> array = bound.integers(int(i));
      tensors(array, program.tensors[i]->values);
      put(array);
    }
  }
  for (const auto& scalar : program.scalars) {
    if (scalar->kind == Kind::real)
      put(float(scalar->real));
    else
      put(scalar->integer);
  }
}

}  // namespace tilefold::score
