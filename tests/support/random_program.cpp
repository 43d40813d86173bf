#include "support/random_program.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "score/program/side_tensor_state.hpp"

namespace tilefold::testing {

using score::Kind;
using score::Op;

namespace {

/// What cells and draws of a test can afford: longer axes are shared, the longest first.
Extents fitted(Extents shape) {
  constexpr std::int64_t most = 1 << 15;
  const auto count = [&] {
    std::int64_t all = 1;
    for (const std::int64_t extent : shape) all *= extent;
    return all;
  };
  while (count() > most) {
    int longest = 0;
    for (int axis = 1; axis < shape.size(); ++axis)
      if (shape[axis] > shape[longest]) longest = axis;
    shape[longest] = 1;
  }
  return shape;
}

/// In runs, as document ids are: cells then know something.
TensorView integers(Random& random, TensorMemory& memory, const Extents& shape, int low, int high) {
  const OutputView tensor = memory.allocate(DType::i32, shape);
  auto* values = tensor.as<std::int32_t>();
  for (std::int64_t i = 0; i < tensor.element_count(); ++i)
    values[i] = i > 0 && random.chance(0.7) ? values[i - 1] : random.between(low, high);
  return tensor;
}

TensorView reals(Random& random, TensorMemory& memory, const Extents& shape) {
  const OutputView tensor = memory.allocate(DType::f32, shape);
  for (std::int64_t i = 0; i < tensor.element_count(); ++i)
    tensor.as<float>()[i] = float(random.normal());
  return tensor;
}

TensorView truths(Random& random, TensorMemory& memory, const Extents& shape) {
  const OutputView tensor = memory.allocate(DType::boolean, shape);
  for (std::int64_t i = 0; i < tensor.element_count(); ++i)
    tensor.as<bool>()[i] = random.chance(0.5);
  return tensor;
}

}  // namespace

FormulaMaterial::FormulaMaterial(Random& random, int batch, int heads, int queries, int keys,
                                 TensorMemory& memory) {
  const int far = std::max(queries, keys);
  // Reals of float32: the code of a formula has no others.
  names_.scalars = {Scalar("w", random.between(-4, 20)), Scalar("n", random.between(1, 9)),
                    Scalar("x", double(float(random.uniform(-2, 2))))};
  const auto whole = [&](const char* name, const Extents& shape, int low, int high) {
    names_.tensors.emplace_back(name, integers(random, memory, shape, low, high));
  };
  whole("doc", {far}, 0, 4);
  whole("ids", {batch, far}, -3, 3);
  whole("words", {queries}, -2147483647, 2147483647);
  names_.tensors.emplace_back("slope", reals(random, memory, {heads}));
  names_.tensors.emplace_back("bias", reals(random, memory, fitted({heads, queries, keys})));
  names_.tensors.emplace_back("tree", truths(random, memory, fitted({queries, keys})));
}

namespace {

const SideTensor& tensor(const ExpressionDraw& from, const char* name) {
  for (const SideTensor& t : from.names.tensors)
    if (t.name() == name) return t;
  throw std::logic_error("the material has no such tensor");
}
const Scalar& scalar(const ExpressionDraw& from, const char* name) {
  for (const Scalar& s : from.names.scalars)
    if (s.name() == name) return s;
  throw std::logic_error("the material has no such scalar");
}

Expression integer_leaf(const ExpressionDraw& from) {
  using namespace symbols;
  Random& random = from.random;
  switch (random.between(0, 11)) {
    case 0:
    case 1: return q;
    case 2:
    case 3: return k;
    case 4: return q + off;
    case 5: return random.between(-9, 30);
    case 6: return random.one_of({2147483647, -2147483647 - 1, 1 << 20, 64, 127});
    case 7: return random.one_of({batch, head, kv_head, query_length, key_length, off});
    case 8: return scalar(from, random.one_of({"w", "n"}));
    case 9: return tensor(from, "doc")[random.one_of({k, q + off})];
    case 10: return tensor(from, "ids")(batch, random.one_of({k, q + off, k - 3}));
    default: return tensor(from, "words")[q];
  }
}

/// Two draws, in this order: compilers may compute the arguments of a function in any.
template <class Next, class Join> Expression of_two(const Next& next, const Join& join) {
  const Expression a = next();
  const Expression b = next();
  return join(a, b);
}
template <class Next> Expression chosen(const ExpressionDraw& from, int levels, const Next& next) {
  const Expression condition = draw(from, Kind::truth, levels - 1);
  return of_two(next,
                [&](const Expression& a, const Expression& b) { return select(condition, a, b); });
}
Expression least(const Expression& a, const Expression& b) { return min(a, b); }
Expression greatest(const Expression& a, const Expression& b) { return max(a, b); }
Expression floor_divided(const Expression& a, const Expression& b) { return floor_div(a, b); }

Expression integer(const ExpressionDraw& from, int levels) {
  Random& random = from.random;
  if (levels <= 1 || random.chance(0.2)) return integer_leaf(from);
  const auto next = [&] { return integer(from, levels - 1); };
  // A divisor that is the literal 0 is refused as it is written.
  const auto divisor = [&]() -> Expression {
    if (random.chance(0.7)) return random.one_of({-7, -2, -1, 1, 2, 3, 8, 128});
    return random.chance(0.5) ? Expression(scalar(from, "n")) : tensor(from, "doc")[symbols::k] - 1;
  };
  const auto over = [&](const auto& join) {
    const Expression a = next();
    const Expression b = divisor();
    return join(a, b);
  };
  switch (random.between(0, 15)) {
    case 0:
    case 1: return of_two(next, std::plus<>());
    case 2:
    case 3: return of_two(next, std::minus<>());
    case 4: return of_two(next, std::multiplies<>());
    case 5: return over(floor_divided);
    case 6: return over(std::modulus<>());
    case 7: return of_two(next, least);
    case 8: return of_two(next, greatest);
    case 9: return -next();
    case 10: return abs(next());
    case 11:
      return random.chance(0.5) ? of_two(next, std::bit_and<>()) : of_two(next, std::bit_or<>());
    case 12: return of_two(next, std::bit_xor<>());
    case 13:
      return random.chance(0.5) ? next() >> random.between(-1, 33)
                                : next() << random.between(-1, 33);
    case 14: return floor(draw(from, Kind::real, levels - 1));
    default: return chosen(from, levels, next);
  }
}

Expression real_leaf(const ExpressionDraw& from) {
  using namespace symbols;
  Random& random = from.random;
  if (from.may_read_score && random.chance(0.6)) return s;
  switch (random.between(0, 4)) {
    case 0: return random.uniform(-3, 3);
    case 1: return scalar(from, "x");
    case 2: return tensor(from, "slope")[head];
    case 3: return tensor(from, "bias")(head, q, k);
    default: return real(integer(from, 2) & 63);
  }
}

Expression real_tree(const ExpressionDraw& from, int levels) {
  Random& random = from.random;
  if (levels <= 1 || random.chance(0.15)) return real_leaf(from);
  const auto next = [&] { return real_tree(from, levels - 1); };
  switch (random.between(0, from.smooth ? 7 : 12)) {
    case 0: return of_two(next, std::plus<>());
    case 1: return of_two(next, std::minus<>());
    case 2: return of_two(next, std::multiplies<>());
    case 3: return -next();
    case 4: return tanh(next());
    case 5: return sigmoid(next());
    case 6: return exp(random.chance(0.8) ? tanh(next()) : min(next(), 3.0));
    case 7: return log(abs(tanh(next())) + 0.5);
    case 8:  // never by a constant 0
      return of_two(next, [&](const Expression& a, const Expression& b) {
        return a / (b + scalar(from, "x"));
      });
    case 9: return of_two(next, least);
    case 10: return of_two(next, greatest);
    case 11: return abs(next());
    default: return chosen(from, levels, next);
  }
}

Expression truth(const ExpressionDraw& from, int levels) {
  Random& random = from.random;
  const auto whole = [&] { return integer(from, levels - 1); };
  const auto numbers = [&](const auto& relate) {
    if (random.chance(0.25)) return of_two([&] { return real_tree(from, levels - 1); }, relate);
    return of_two(whole, relate);
  };
  if (levels <= 1)
    return random.chance(0.5) ? symbols::k <= symbols::q + symbols::off
                              : Expression(random.chance(0.5));
  switch (random.between(0, 11)) {
    case 0: return numbers([](const Expression& a, const Expression& b) { return a < b; });
    case 1: return numbers([](const Expression& a, const Expression& b) { return a <= b; });
    case 2: return numbers([](const Expression& a, const Expression& b) { return a >= b; });
    case 3: return numbers([](const Expression& a, const Expression& b) { return a == b; });
    case 4: return numbers([](const Expression& a, const Expression& b) { return a != b; });
    case 5:
    case 6: return truth(from, levels - 1) && truth(from, levels - 1);
    case 7:
    case 8: return truth(from, levels - 1) || truth(from, levels - 1);
    case 9: return !truth(from, levels - 1);
    case 10:
      return of_two(whole, [](const Expression& a, const Expression& b) { return bit(a, b); });
    default: return tensor(from, "tree")(symbols::q, symbols::k);
  }
}

}  // namespace

Expression draw(const ExpressionDraw& from, Kind kind, int levels) {
  switch (kind) {
    case Kind::integer: return integer(from, levels);
    case Kind::real: return real_tree(from, levels);
    default: return truth(from, levels);
  }
}

Expression draw_steady_change(const ExpressionDraw& from) {
  using namespace symbols;
  Random& random = from.random;
  const ExpressionDraw of_positions{random, from.names};
  const auto level = [&] {
    // NaN is not below a number: both ends hold whatever comes.
    return max(-4.0, min(4.0, draw(of_positions, Kind::real, 3)));
  };
  switch (random.between(0, 7)) {
    case 0: return s + level();
    case 1: return s * (1.0 + 0.2 * level());
    case 2: return 3.0 * tanh(s * 0.5) + level();
    case 3: return select(draw(of_positions, Kind::truth, 3), s, s * 0.5 + level());
    case 4: return max(s, level()) * scalar(from, "x");
    case 5: return min(s, level()) + tensor(from, "slope")[head];
    case 6: return s * sigmoid(level()) + log(1.0 + exp(min(s, level())));
    default: return s - 0.02 * real(abs(q + off - k)) + tensor(from, "bias")(head, q, k);
  }
}

score::Place draw_place(Random& random, int batch, int heads, int queries, int keys) {
  const int sq = random.between(1, queries), sk = random.between(1, keys);
  const int head = random.between(0, heads - 1);
  return {random.between(0, batch - 1), head, head / 2, sq, sk, sk - sq};
}

bool reads_batch(const Expression& expression) {
  const score::ExpressionNode& node = *expression.node();
  return node.op == Op::batch ||
         std::any_of(node.operands.begin(), node.operands.end(), reads_batch);
}

namespace {

std::int64_t held(std::int64_t x) {
  return std::clamp<std::int64_t>(x, -2147483648LL, 2147483647LL);
}
std::int64_t floored(std::int64_t a, std::int64_t b) {
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

std::int64_t integer_value(Op op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case Op::add: return held(a + b);
    case Op::subtract: return held(a - b);
    case Op::multiply: return held(a * b);
    case Op::floor_divide: return b == 0 ? 0 : held(floored(a, b));
    case Op::modulo: return b == 0 ? 0 : a - b * floored(a, b);
    case Op::minimum: return std::min(a, b);
    case Op::maximum: return std::max(a, b);
    case Op::negative: return held(-a);
    case Op::absolute: return held(std::abs(a));
    case Op::bit_and: return a & b;
    case Op::bit_or: return a | b;
    case Op::bit_xor: return a ^ b;
    case Op::shift_left: return held(a * (1LL << std::clamp<std::int64_t>(b, 0, 31)));
    case Op::shift_right: return a >> std::clamp<std::int64_t>(b, 0, 31);
    default: return 0;
  }
}

template <class F> F real_value(Op op, F a, F b) {
  switch (op) {
    case Op::add: return a + b;
    case Op::subtract: return a - b;
    case Op::multiply: return a * b;
    case Op::divide: return a / b;
    case Op::minimum: return b < a ? b : a;
    case Op::maximum: return a < b ? b : a;
    case Op::negative: return -a;
    case Op::absolute: return std::abs(a);
    case Op::exp: return std::exp(a);
    case Op::log: return std::log(a);
    case Op::tanh: return std::tanh(a);
    case Op::sigmoid: return F(1) / (F(1) + std::exp(-a));
    default: return 0;
  }
}

bool related(Op op, double a, double b) {
  return op == Op::less ? a < b : op == Op::less_equal ? a <= b : a == b;
}

double entry_of(const score::SideTensorState& tensor, const double* index) {
  const TensorView& view = tensor.values;
  std::int64_t at = 0;
  for (int axis = 0; axis < view.rank(); ++axis)
    at += std::clamp<std::int64_t>(std::int64_t(index[axis]), 0, view.dim(axis) - 1) *
          view.stride(axis);
  switch (view.dtype()) {
    case DType::i32: return view.as<std::int32_t>()[at];
    case DType::boolean: return view.as<bool>()[at] ? 1 : 0;
    default: return view.as<float>()[at];
  }
}

}  // namespace

template <class F> double ElementOracle<F>::operator()(const Expression& expression) const {
  const score::ExpressionNode& node = *expression.node();
  double x[4] = {};
  for (std::size_t i = 0; i < node.operands.size(); ++i) x[i] = (*this)(node.operands[i]);
  const bool of_reals = !node.operands.empty() && node.operands[0].node()->kind == Kind::real;
  switch (node.op) {
    case Op::integer:
    case Op::truth: return node.integer;
    case Op::real: return F(node.real_value);
    case Op::integer_scalar: return node.scalar->integer;
    case Op::real_scalar: return F(node.scalar->real);
    case Op::query: return q;
    case Op::key: return k;
    case Op::offset: return place.offset;
    case Op::batch: return place.batch;
    case Op::query_head: return place.query_head;
    case Op::kv_head: return place.kv_head;
    case Op::query_length: return place.query_length;
    case Op::key_length: return place.key_length;
    case Op::score: return score;
    case Op::lookup: return entry_of(*node.tensor, x);
    case Op::test_bit:
      return x[1] >= 0 && x[1] < 32 && (std::int64_t(x[0]) >> std::int64_t(x[1]) & 1) != 0;
    case Op::less:
    case Op::less_equal:
    case Op::equal: return related(node.op, x[0], x[1]);
    case Op::both: return x[0] != 0 && x[1] != 0;
    case Op::either: return x[0] != 0 || x[1] != 0;
    case Op::negate: return x[0] == 0;
    case Op::select: return x[0] != 0 ? x[1] : x[2];
    case Op::floor:
      return std::isnan(x[0])        ? 0
             : x[0] <= -2147483648.0 ? -2147483648.0
             : x[0] >= 2147483647.0  ? 2147483647.0
                                     : std::floor(x[0]);
    case Op::real_of: return F(x[0]);
    default:
      return of_reals ? double(real_value<F>(node.op, F(x[0]), F(x[1])))
                      : double(integer_value(node.op, std::int64_t(x[0]), std::int64_t(x[1])));
  }
}
template struct ElementOracle<float>;
template struct ElementOracle<double>;

}  // namespace tilefold::testing
