// Fuzzes formulas: every text gives an Error, or a program that its own text gives again, whose
// elements can be computed, and whose answer for a tile holds for each of them.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/promise.hpp"
#include "score/program/evaluate.hpp"
#include "tilefold/error.hpp"
#include "tilefold/expression.hpp"

namespace tilefold::fuzz {
namespace {

using score::BoundProgram;
using score::Kind;
using score::Place;
using score::Purpose;
using score::ScoreProgram;
using score::TilePositions;

constexpr int batch = 2, heads = 4, queries = 21, keys = 33, positions = 40;

/// Names of every kind of tensor, with runs, extreme integers, NaN and infinities in them.
struct Material {
  std::vector<int> doc = std::vector<int>(positions), ids = std::vector<int>(batch * positions);
  std::vector<int> words = std::vector<int>(queries), one = {7};
  std::array<bool, std::size_t(queries) * keys> tree{};
  std::vector<float> slope = {0.5f, -0.25f, 0.0f, 2.0f};
  std::vector<float> bias = std::vector<float>(std::size_t(heads) * queries * keys);
  Names names;

  Material() {
    for (int i = 0; i < positions; ++i) doc[std::size_t(i)] = i / 7;
    for (int i = 0; i < batch * positions; ++i) ids[std::size_t(i)] = i % 11 - 5;
    for (int i = 0; i < queries; ++i) words[std::size_t(i)] = int(2654435761u * unsigned(i));
    words[3] = std::numeric_limits<int>::min();
    words[4] = std::numeric_limits<int>::max();
    for (std::size_t i = 0; i < tree.size(); ++i) tree[i] = i * 7 % 5 < 2;
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = float(i % 17) * 0.25f - 2;
    bias[5] = std::numeric_limits<float>::quiet_NaN();
    bias[90] = std::numeric_limits<float>::infinity();
    bias[400] = -std::numeric_limits<float>::infinity();
    names.tensors = {SideTensor("doc", TensorView(doc.data(), {positions})),
                     SideTensor("ids", TensorView(ids.data(), {batch, positions})),
                     SideTensor("words", TensorView(words.data(), {queries})),
                     SideTensor("one", TensorView(one.data(), {1})),
                     SideTensor("tree", TensorView(tree.data(), {queries, keys})),
                     SideTensor("slope", TensorView(slope.data(), {heads})),
                     SideTensor("bias", TensorView(bias.data(), {heads, queries, keys}))};
    names.scalars = {Scalar("w", 5), Scalar("n", 3), Scalar("far", 1 << 27), Scalar("x", 0.5)};
  }
};

const Material& material() {
  static const Material made;
  return made;
}

/// Whether the text may be too long or nest too deep to be read, which is documented.
bool is_limit(const Error& error) {
  const std::string_view message = error.what();
  return message.find("nests deeper") != message.npos ||
         message.find("characters: at most") != message.npos;
}

void check_text(const ScoreProgram& program, const std::string& text, Purpose purpose) {
  try {
    const ScoreProgram again =
        score::make_program(parse_expression(text, material().names), purpose);
    promise(again.hash() == program.hash() && again.text() == program.text());
  } catch (const Error& error) {
    promise(is_limit(error));
  }
}

struct Rectangle {
  int query_first, queries, key_first, keys;
};
constexpr Rectangle rectangles[] = {{0, 21, 0, 33}, {4, 1, 9, 1}, {8, 8, 16, 8}, {20, 1, 0, 33}};

Place place(int which) {
  return {which % batch, which % heads, which % heads / 2, queries, keys, keys - queries};
}

void check_mask(const BoundProgram& program) {
  int which = 0;
  for (const Rectangle& r : rectangles) {
    const Place at = place(which++);
    unsigned char flags[64 * 64];
    score::evaluate_mask(program, {r.query_first, 1, r.queries, r.key_first, 1, r.keys, at}, flags,
                         64);
    const score::Truth answer = program.classify({r.query_first, r.query_first + r.queries - 1},
                                                 {r.key_first, r.key_first + r.keys - 1}, at);
    for (int c = 0; c < r.keys; ++c)
      for (int q = 0; q < r.queries; ++q) {
        const unsigned char flag = flags[c * 64 + q];
        promise(flag <= 1 && (answer.maybe() || answer.yes() == (flag == 1)));
      }
  }
}

template <class F> F score_at(int i) { return i % 31 == 0 ? -HUGE_VALF : F(i % 13) * F(0.5) - 3; }

void check_score(const BoundProgram& program) {
  int which = 0;
  std::vector<score::Bound> bounds(program.program().nodes.size());
  for (const Rectangle& r : {rectangles[1], rectangles[2]}) {
    const Place at = place(which++);
    const TilePositions tile{r.query_first, 1, r.queries, r.key_first, 1, r.keys, at};
    std::array<float, std::size_t(64) * 64> single;
    std::array<double, std::size_t(64) * 64> wide, slopes;
    for (std::size_t i = 0; i < single.size(); ++i) {
      single[i] = score_at<float>(int(i));
      wide[i] = score_at<double>(int(i));
      slopes[i] = 1;
    }
    score::evaluate_change(program, tile, single.data(), 64);
    score::evaluate_derivative(program, tile, wide.data(), slopes.data(), 64);
    program.bound({r.query_first, r.query_first + r.queries - 1},
                  {r.key_first, r.key_first + r.keys - 1}, at, bounds.data());
    for (int c = 0; c < r.keys; ++c)
      for (int q = 0; q < r.queries; ++q) {
        const auto i = std::size_t(c * 64 + q);
        if (i % 31 == 0)
          promise(single[i] == -HUGE_VALF && wide[i] == -HUGE_VAL && slopes[i] == 0);
        else
          promise(bounds.back().real.contains(single[i]));
      }
  }
}

void check(const Expression& expression) {
  const bool is_mask = expression.node()->kind == Kind::truth;
  const Purpose purpose = is_mask ? Purpose::mask : Purpose::score_change;
  ScoreProgram program;
  try {
    program = score::make_program(expression, purpose);
  } catch (const Error& error) {
    promise(error.code() == ErrorCode::invalid_argument);
    return;
  }
  check_text(program, expression.text(), purpose);
  check_text(program, program.text(), purpose);
  const BoundProgram bound(program);
  try {
    bound.require_fit({batch, heads, queries, keys});
  } catch (const Error&) {
    // Too small a tensor: elements are still defined.
  }
  is_mask ? check_mask(bound) : check_score(bound);
}

}  // namespace
}  // namespace tilefold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tilefold;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Expression expression = 0;
  try {
    expression = parse_expression(text, fuzz::material().names);
  } catch (const Error& error) {
    const std::string_view message = error.what();
    fuzz::promise(error.code() == ErrorCode::invalid_argument && !message.empty() &&
                  message.size() < 1000);
    return 0;
  }
  fuzz::check(expression);
  return 0;
}
