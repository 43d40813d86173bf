// Laws of formulas that are read as data: the interpreter gives, bit for bit, what the CPU's
// evaluation gives, for elements and for tiles, whatever the formula; its values fit, or the
// program is refused; masks that join programs and built-ins are one program.
#include "tilefold/score/interpreter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "score/program/formula_nodes.hpp"
#include "score/program/instructions.hpp"
#include "score/program/joined_program.hpp"
#include "support/random_program.hpp"

namespace tilefold {
namespace {

using score::BoundProgram;
using score::Instruction;
using score::Interval;
using score::Kind;
using score::Op;
using score::Place;
using score::Point;
using score::ScoreProgram;
using score::TilePositions;
using score::Truth;
using testing::draw;
using testing::draw_place;
using testing::Random;

constexpr int batch = 2, heads = 4, queries = 21, keys = 33;

/// A program's instructions and arrays, as a device holds them.
class Code {
 public:
  explicit Code(const ScoreProgram& program) : bound_(program) {
    instructions_ = score::instructions_of(program).value();
    for (std::size_t i = 0; i < program.tensors.size(); ++i)
      if (program.tensors[i]->holds_reals())
        reals_.push_back(bound_.reals(int(i)));
      else
        integers_.push_back(bound_.integers(int(i)));
  }
  score::InstructionList list() const {
    return {instructions_.data(), int(instructions_.size()), integers_.data(), reals_.data()};
  }
  bool keep(int q, int k, const Place& at) const {
    return score::interpreted<int>(list(), Point<int>::of(q, k, 0.0f, at)).truth;
  }
  float change(float s, int q, int k, const Place& at) const {
    return score::interpreted<int>(list(), Point<int>::of(q, k, s, at)).real;
  }
  Truth classify(Interval q, Interval k, Interval head, const Place& at) const {
    return score::interpreted<Interval>(
               list(), {q, k, head, {head.low / 2, head.high / 2}, score::Span(0.0f), at})
        .truth;
  }
  /// Places that its values take.
  int places() const {
    int most = 0;
    for (const Instruction& i : instructions_) most = std::max(most, int(i.to) + 1);
    return most;
  }

 private:
  BoundProgram bound_;
  std::vector<Instruction> instructions_;
  std::vector<score::SideArray<int>> integers_;
  std::vector<score::SideArray<float>> reals_;
};

const ScoreProgram& program_of(const Mask& mask) {
  return dynamic_cast<const score::ProgramMask&>(*mask.node()).program().program();
}
const ScoreProgram& program_of(const ScoreChange& change) {
  return dynamic_cast<const score::ProgramChange&>(*change.node()).program().program();
}

TilePositions all_of(const Place& at) { return {0, 1, at.query_length, 0, 1, at.key_length, at}; }

/// Elements of `code` against those of the node, all queries and keys of a place.
void expect_same_elements(const Code& code, const Mask& mask, const Place& at) {
  std::vector<unsigned char> flags(64 * 64);
  mask.node()->keep(all_of(at), flags.data(), 64);
  for (int q = 0; q < at.query_length; ++q)
    for (int k = 0; k < at.key_length; ++k)
      ASSERT_EQ(code.keep(q, k, at), flags[std::size_t(k * 64 + q)] != 0)
          << mask.text() << "\nq " << q << " k " << k;
}

bool same(float a, float b) {
  return std::bit_cast<unsigned>(a) == std::bit_cast<unsigned>(b) ||
         (std::isnan(a) && std::isnan(b));
}
void expect_same_scores(const Code& code, const ScoreChange& change, const Place& at,
                        Random& random) {
  std::vector<float> given(64 * 64), changed;
  for (float& s : given) s = float(random.normal() * 4);
  changed = given;
  change.node()->change(all_of(at), changed.data(), 64);
  for (int q = 0; q < at.query_length; ++q)
    for (int k = 0; k < at.key_length; ++k) {
      const auto i = std::size_t(k * 64 + q);
      ASSERT_TRUE(same(code.change(given[i], q, k, at), changed[i]))
          << change.text() << "\nq " << q << " k " << k << " s " << given[i] << ": "
          << code.change(given[i], q, k, at) << ", the CPU " << changed[i];
    }
}

TEST(Interpreter, KeepsWhatTheMaskKeeps) {
  for (int seed = 0; seed < 2000; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const testing::FormulaMaterial material(random, batch, heads, queries, keys);
    const Mask formula = mask(draw({random, material.names()}, Kind::truth, random.between(1, 6)));
    ASSERT_NO_FATAL_FAILURE(expect_same_elements(Code(program_of(formula)), formula,
                                                 draw_place(random, batch, heads, queries, keys)))
        << "seed " << seed;
  }
}

TEST(Interpreter, ChangesScoresAsTheFormulaDoes) {
  for (int seed = 0; seed < 2000; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const testing::FormulaMaterial material(random, batch, heads, queries, keys);
    const ScoreChange formula =
        change(draw({random, material.names(), true}, Kind::real, random.between(1, 6)));
    const Place at = draw_place(random, batch, heads, queries, keys);
    ASSERT_NO_FATAL_FAILURE(expect_same_scores(Code(program_of(formula)), formula, at, random))
        << "seed " << seed;
  }
}

TEST(Interpreter, AnswersForTilesAsTheMaskDoes) {
  for (int seed = 0; seed < 2000; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const testing::FormulaMaterial material(random, batch, heads, queries, keys);
    const Mask formula = mask(draw({random, material.names()}, Kind::truth, random.between(1, 6)));
    const Code code(program_of(formula));
    const Place at = draw_place(random, batch, heads, queries, keys);
    for (int trial = 0; trial < 12; ++trial) {
      const int q0 = random.between(0, queries - 1), q1 = random.between(q0, queries - 1);
      const int k0 = random.between(0, keys - 1), k1 = random.between(k0, keys - 1);
      ASSERT_EQ(code.classify({q0, q1}, {k0, k1}, at.query_head, at),
                formula.node()->classify({q0, q1}, {k0, k1}, at))
          << "seed " << seed << ": " << formula.text();
    }
  }
}

TEST(Interpreter, AnswersForRowsOfSeveralHeads) {
  int sure = 0;
  for (int seed = 0; seed < 1000; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const testing::FormulaMaterial material(random, batch, heads, queries, keys);
    const Mask formula = mask(draw({random, material.names()}, Kind::truth, random.between(1, 5)));
    const Code code(program_of(formula));
    Place at = draw_place(random, batch, heads, queries, keys);
    const int first = random.between(0, 3), last = random.between(first, 3);
    const Truth answer =
        code.classify({0, at.query_length - 1}, {0, at.key_length - 1}, {first, last}, at);
    sure += !answer.maybe();
    for (int head = first; head <= last && !answer.maybe(); ++head) {
      at.query_head = head;
      at.kv_head = head / 2;
      for (int q = 0; q < at.query_length; ++q)
        for (int k = 0; k < at.key_length; ++k)
          ASSERT_EQ(code.keep(q, k, at), answer.yes()) << "seed " << seed << formula.text();
    }
  }
  EXPECT_GT(sure, 200);
}

/// Numbers at the ends of their kind, as tensors that queries and keys index.
class Extremes {
 public:
  Extremes() {
    for (const int x :
         {0, 1, -1, 2, -2, 3, 5, 31, 32, 33, -31, 1 << 20, -(1 << 27),
          std::numeric_limits<int>::max(), std::numeric_limits<int>::min(), 0x55555555, -7})
      integers_.push_back(x);
    const float infinite = std::numeric_limits<float>::infinity();
    for (const float x : {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 1e-30f, -1e30f, 3.4e38f, infinite,
                          -infinite, std::nanf(""), 88.0f, -103.0f, 2147483648.0f, -2.5f, 7.75f})
      reals_.push_back(x);
    for (std::size_t i = 0; i < truths_.size(); ++i) truths_[i] = i % 3 == 0;
    const auto named = [&](const char* name, const auto& values) {
      tensors_.emplace_back(name, TensorView(values.data(), {std::int64_t(values.size())}));
    };
    named("i", integers_);
    named("r", reals_);
    named("t", truths_);
  }
  Expression read(Kind kind, const Expression& at) const { return tensors_[std::size_t(kind)][at]; }

 private:
  std::vector<std::int32_t> integers_;
  std::vector<float> reals_;
  std::array<bool, 16> truths_{};
  std::vector<SideTensor> tensors_;  // of each kind
};

/// Kinds of numbers that an operation takes.
std::vector<Kind> kinds_of(score::Signature signature) {
  using score::Signature;
  switch (signature) {
    case Signature::numbers:
    case Signature::compare: return {Kind::integer, Kind::real};
    case Signature::integers:
    case Signature::bit:
    case Signature::to_real: return {Kind::integer};
    case Signature::reals:
    case Signature::to_whole: return {Kind::real};
    case Signature::truths: return {Kind::truth};
    case Signature::choice: return {Kind::integer, Kind::real, Kind::truth};
  }
  return {};
}

TEST(Interpreter, ComputesEveryOperationAtTheEndsOfItsRange) {
  using namespace symbols;
  const Extremes extremes;
  Random random(1);
  int operations = 0;
  for (const score::OperationRow& row : score::operation_rows)
    for (const Kind kind : kinds_of(row.signature)) {
      std::vector<Expression> operands;
      if (row.signature == score::Signature::choice) operands.push_back((q ^ k) % 2 == 0);
      operands.push_back(extremes.read(kind, q));
      if (int(operands.size()) < row.operands) operands.push_back(extremes.read(kind, k));
      const Expression result = score::apply(row.op, operands);
      const Place at{0, 0, 0, 17, 17, 0};
      if (result.node()->kind == Kind::truth) {
        const Mask formula = mask(result);
        ASSERT_NO_FATAL_FAILURE(expect_same_elements(Code(program_of(formula)), formula, at))
            << row.code;
      } else {
        // An integer's bits are told by halves: a real holds 24.
        for (const Expression& part : result.node()->kind == Kind::real
                                          ? std::vector<Expression>{result}
                                          : std::vector<Expression>{result >> 16, result & 65535}) {
          const ScoreChange formula = change(s * 0.0 + part);
          ASSERT_NO_FATAL_FAILURE(
              expect_same_scores(Code(program_of(formula)), formula, at, random))
              << row.code;
        }
      }
      ++operations;
    }
  EXPECT_GE(operations, 31);
}

TEST(Interpreter, ReadsTensorsOfEveryRankAtAnyIndex) {
  using namespace symbols;
  std::vector<std::int32_t> integers(3 * 4 * 5 * 6);
  std::vector<float> reals(integers.size());
  for (std::size_t i = 0; i < integers.size(); ++i) {
    integers[i] = int(i * 7919 % 1000);
    reals[i] = float(integers[i]) * 0.5f;
  }
  const Expression far = q * k - 40, near = k - q;
  const auto read = [&](const auto& values, const Extents& shape) {
    const SideTensor tensor("tensor", TensorView(values.data(), shape));
    switch (shape.size()) {
      case 1: return tensor[far];
      case 2: return tensor(near, far);
      case 3: return tensor(far, head, near);
      default: return tensor(batch, near, far, q - 3);
    }
  };
  Random random(2);
  for (const Extents& shape : {Extents{360}, Extents{60, 6}, Extents{3, 20, 6}, Extents{3, 4, 5, 6},
                               Extents{1, 4, 1, 6}}) {
    const Place at{1, 3, 1, queries, keys, keys - queries};
    const Mask formula = mask(read(integers, shape) < 400);
    const Code code(program_of(formula));
    ASSERT_NO_FATAL_FAILURE(expect_same_elements(code, formula, at));
    for (int k0 = 0; k0 < keys; k0 += 5)
      EXPECT_EQ(code.classify({2, 9}, {k0, k0 + 4}, 3, at),
                formula.node()->classify({2, 9}, {k0, k0 + 4}, at));
    const ScoreChange added = change(s + read(reals, shape));
    ASSERT_NO_FATAL_FAILURE(expect_same_scores(Code(program_of(added)), added, at, random));
  }
}

TEST(Interpreter, ReadsScalarsAsTheyAreWhenTheListIsMade) {
  using namespace symbols;
  Scalar reach("reach", 3), cap("cap", 2.5);
  const Mask formula = mask(q - k <= reach && real(k) * cap < 40.0);
  const std::size_t before = score::instructions_of(program_of(formula))->size();
  const Place at{0, 0, 0, queries, keys, 0};
  for (const int value : {3, -5, 1 << 27}) {
    reach.set(value);
    cap.set(value * 0.25);
    ASSERT_NO_FATAL_FAILURE(expect_same_elements(Code(program_of(formula)), formula, at));
    EXPECT_EQ(score::instructions_of(program_of(formula))->size(), before);
  }
}

// ---- places of values

TEST(InterpreterPlaces, LongChainsTakeFew) {
  using namespace symbols;
  Expression chain = q;
  for (int i = 1; i < 90; ++i) chain = (chain ^ (k + i)) * 3;
  const Mask formula = mask(chain > 0);
  EXPECT_LE(Code(program_of(formula)).places(), 8);
}

Expression balanced(int first, int count) {
  using namespace symbols;
  if (count == 1) return (q * first) ^ (k + first);
  return max(balanced(first, count / 2), balanced(first + count / 2, count - count / 2));
}
TEST(InterpreterPlaces, WideTreesTakeTheirHeight) {
  const Mask formula = mask(balanced(1, 128) > 5);
  const Code code(program_of(formula));
  EXPECT_LE(code.places(), Instruction::most_values);
  const Place at{0, 0, 0, queries, keys, 0};
  ASSERT_NO_FATAL_FAILURE(expect_same_elements(code, formula, at));
}

/// Two chains over the same terms: all are alive between them.
Expression twice(const std::vector<Expression>& terms) {
  Expression a = terms.front(), b = terms.front();
  for (std::size_t i = 1; i < terms.size(); ++i) {
    a = max(a, terms[i]) ^ 1;
    b = min(b, terms[i]) ^ 2;
  }
  return a < b;
}
std::vector<Expression> terms(int count) {
  std::vector<Expression> all;
  for (int i = 1; i <= count; ++i) all.push_back((symbols::q * i) ^ (symbols::k >> (i % 3)));
  return all;
}
TEST(InterpreterPlaces, SharedValuesKeepTheirPlaces) {
  for (const int count : {1, 2, 20, 40}) {
    const Mask formula = mask(twice(terms(count)));
    const Place at{0, 0, 0, queries, keys, 0};
    ASSERT_NO_FATAL_FAILURE(expect_same_elements(Code(program_of(formula)), formula, at));
  }
}
TEST(InterpreterPlaces, AProgramThatNeedsMoreHasNoInstructions) {
  const Mask formula = mask(twice(terms(90)));
  EXPECT_FALSE(score::instructions_of(program_of(formula)).has_value());
}
TEST(InterpreterPlaces, ConstantsAreReadAgainWhereTheyWouldFillAll) {
  Expression a = symbols::q, b = symbols::k;
  for (int i = 1; i < 90; ++i) {
    a = max(a, symbols::q ^ (1000 + i)) ^ 1;
    b = min(b, symbols::k & (1000 + i)) ^ 2;
  }
  const Mask formula = mask(a < b);
  const Code code(program_of(formula));
  const Place at{0, 0, 0, queries, keys, 0};
  ASSERT_NO_FATAL_FAILURE(expect_same_elements(code, formula, at));
}

// ---- programs and built-ins joined

TEST(JoinedPrograms, KeepWhatTheirPartsKeepTogether) {
  std::vector<std::int32_t> ids(batch * keys), lengths = {5, 11};
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = std::int32_t(i * 13 % keys / 6);
  const TensorView document(ids.data(), {batch, keys}), shared(ids.data(), {keys});
  const TensorView first(lengths.data(), {batch});
  for (int seed = 0; seed < 300; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const testing::FormulaMaterial material(random, batch, heads, queries, keys);
    const auto drawn = [&] {
      return mask(draw({random, material.names()}, Kind::truth, random.between(1, 3)));
    };
    Mask joined = drawn();
    for (int part = random.between(1, 4); part > 0; --part) {
      const Mask next = random.one_of<Mask>({causal(), window(4), window(3, 2), prefix(first),
                                             prefix(7), documents(document), documents(shared),
                                             !drawn(), drawn(), Mask(), !causal()});
      joined = random.chance(0.5) ? joined && next : joined || next;
    }
    if (joined.node() == nullptr) continue;
    const Place at = draw_place(random, batch, heads, queries, keys);
    const auto program = score::joined_program({joined.node()});
    ASSERT_TRUE(program.has_value()) << joined.text();
    const Code code(*program);
    ASSERT_NO_FATAL_FAILURE(expect_same_elements(code, joined, at)) << "seed " << seed;
    // Never sure of what an element contradicts.
    const Truth answer =
        code.classify({0, at.query_length - 1}, {0, at.key_length - 1}, at.query_head, at);
    for (int q = 0; q < at.query_length && !answer.maybe(); ++q)
      for (int k = 0; k < at.key_length; ++k) ASSERT_EQ(code.keep(q, k, at), answer.yes());
  }
}

TEST(JoinedPrograms, OfSeveralMasksKeepWhatAllKeep) {
  using namespace symbols;
  const Mask a = mask(k % 3 != 0), b = mask(q % 2 == 0) || causal();
  const Code code(score::joined_program({a.node(), b.node()}).value());
  const Place at{0, 0, 0, queries, keys, keys - queries};
  ASSERT_NO_FATAL_FAILURE(expect_same_elements(code, a && b, at));
}

TEST(JoinedPrograms, AreNotMadeOfCode) {
  using namespace symbols;
  const Mask code = mask([](auto i, auto j, auto) { return j <= i; });
  EXPECT_FALSE(score::joined_program({(mask(k % 3 != 0) || code).node()}).has_value());
}

}  // namespace
}  // namespace tilefold
