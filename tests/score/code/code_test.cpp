// The C++ text of a formula says what the formula says, in every reading: with int and Position for
// elements, with Interval for tiles. The build writes the text and compiles it here as any other
// code; NVRTC compiles the same (tests/cuda/jit).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "drawn_formulas_code.hpp"
#include "score/code/drawn_formulas.hpp"
#include "score/program/evaluate.hpp"

namespace tilefold {
namespace {

using score::Interval;
using score::Place;
using score::Position;
using score::Purpose;
using testing::DrawnFormula;

/// Padded rows, as a device's copies are.
class PaddedCopies final : public score::DeviceCopies {
 public:
  void operator()(score::Lookup&) const override {}
  void operator()(score::Table&) const override {}
  void operator()(const float*&, long long) const override {}
  void operator()(const int*&, long long) const override {}
  void operator()(score::SideArray<int>& array, const TensorView&) const override { pad(array); }
  void operator()(score::SideArray<float>& array, const TensorView&) const override { pad(array); }
  int batch() const override { return testing::code_batch; }
  int query_heads() const override { return testing::code_heads; }

 private:
  template <class T> void pad(score::SideArray<T>& array) const {
    constexpr int edge = score::side_tensor_pad;
    const int last = array.rank - 1, size = array.size[last];
    int rows = 1;
    for (int axis = 0; axis < last; ++axis) rows *= array.size[axis];
    auto memory =
        std::make_shared<std::vector<T>>(std::size_t(rows) * std::size_t(size + 2 * edge));
    for (int row = 0; row < rows; ++row)
      for (int i = -edge; i < size + edge; ++i)  // drawn tensors are contiguous
        (*memory)[std::size_t(row * (size + 2 * edge) + i + edge)] =
            array.values[row * size + array.held(last, i)];
    array.values = memory->data() + edge;
    long long stride = 1;
    for (int axis = last; axis >= 0; --axis) {
      array.stride[axis] = stride;
      stride = axis == last ? size + 2 * edge : stride * array.size[axis];
    }
    kept_.push_back(memory);
  }
  mutable std::vector<std::shared_ptr<void>> kept_;
};

Place draw_place(testing::Random& random) {
  return testing::draw_place(random, testing::code_batch, testing::code_heads,
                             testing::code_queries, testing::code_keys);
}

template <class Formula>
void fill(Formula& functor, const DrawnFormula& drawn, const PaddedCopies& copies) {
  alignas(16) unsigned char bytes[sizeof(Formula)];
  write_program_arguments(drawn.program, bytes, copies);
  std::memcpy(&functor, bytes, sizeof functor);
}

TEST(FormulaCode, ElementsOfAMaskAreThoseOfTheProgram) {
  each_mask([](int index, auto functor) {
    DrawnFormula drawn(index, Purpose::mask);
    const PaddedCopies copies;
    fill(functor, drawn, copies);
    for (int trial = 0; trial < 4; ++trial) {
      const Place at = draw_place(drawn.random);
      std::vector<unsigned char> flags(64 * 64);
      evaluate_mask(drawn.program, {0, 1, at.query_length, 0, 1, at.key_length, at}, flags.data(),
                    64);
      for (int q = 0; q < at.query_length; ++q)
        for (int k = 0; k < at.key_length; ++k) {
          const bool kept = flags[std::size_t(k * 64 + q)] != 0;
          ASSERT_EQ(score::decided(functor.keep(q, k, at)), kept)
              << "mask " << index << ": " << drawn.program.program().text();
          const int split = drawn.random.between(-64, 63), other = drawn.random.between(0, 127);
          ASSERT_EQ(score::decided(
                        functor.keep(Position(q - split, split), Position(k - other, other), at)),
                    kept)
              << "mask " << index << ": " << drawn.program.program().text() << " at q " << q
              << " k " << k << " split " << split << " " << other;
        }
    }
  });
}

TEST(FormulaCode, TilesOfAMaskAreThoseOfTheProgram) {
  each_mask([](int index, auto functor) {
    DrawnFormula drawn(index, Purpose::mask);
    const PaddedCopies copies;
    fill(functor, drawn, copies);
    for (int trial = 0; trial < 200; ++trial) {
      const Place at = draw_place(drawn.random);
      const int q0 = drawn.random.between(0, at.query_length - 1);
      const int q1 = drawn.random.between(q0, at.query_length - 1);
      const int k0 = drawn.random.between(0, at.key_length - 1);
      const int k1 = drawn.random.between(k0, at.key_length - 1);
      ASSERT_EQ(score::Truth(functor.keep(Interval(q0, q1), Interval(k0, k1), at)),
                drawn.program.classify({q0, q1}, {k0, k1}, at))
          << "mask " << index << ": " << drawn.program.program().text();
    }
  });
}

TEST(FormulaCode, ScoresAreThoseOfTheProgram) {
  each_change([](int index, auto functor) {
    DrawnFormula drawn(index, Purpose::score_change);
    const PaddedCopies copies;
    fill(functor, drawn, copies);
    for (int trial = 0; trial < 4; ++trial) {
      const Place at = draw_place(drawn.random);
      std::vector<float> scores(64 * 64);
      for (float& score : scores) score = float(drawn.random.normal());
      std::vector<float> changed = scores;
      evaluate_change(drawn.program, {0, 1, at.query_length, 0, 1, at.key_length, at},
                      changed.data(), 64);
      for (int q = 0; q < at.query_length; ++q)
        for (int k = 0; k < at.key_length; ++k) {
          const auto i = std::size_t(k * 64 + q);
          const float by_int = functor.change(scores[i], q, k, at);
          // Products of a slope and a position are summed in two parts; the rest is the same.
          const float by_position =
              functor.change(scores[i], Position(q + 3, -3), Position(k - 5, 5), at);
          const auto close = [&](float x, double within) {
            return (std::isnan(x) && std::isnan(changed[i])) || x == changed[i] ||
                   std::abs(x - changed[i]) <= within * (1 + std::abs(double(changed[i])));
          };
          ASSERT_TRUE(close(by_int, 1e-6))
              << "change " << index << ": " << drawn.program.program().text() << ": " << by_int
              << " for " << changed[i];
          // Where a formula has a jump, rounding decides on which side an element is.
          const bool jumps = drawn.program.program().text().find("floor") != std::string::npos ||
                             drawn.program.program().text().find("select") != std::string::npos;
          if (!jumps) {
            ASSERT_TRUE(close(by_position, 1e-3))
                << "change " << index << ": " << drawn.program.program().text() << ": "
                << by_position << " for " << changed[i];
          }
        }
    }
  });
}

TEST(FormulaCode, DerivativesAreThoseOfTheProgram) {
  each_change([](int index, auto functor) {
    DrawnFormula drawn(index, Purpose::score_change);
    const PaddedCopies copies;
    fill(functor, drawn, copies);
    const Place at = draw_place(drawn.random);
    for (int q = 0; q < at.query_length; ++q)
      for (int k = 0; k < at.key_length; ++k) {
        const double given = drawn.random.normal();
        double value = given, slope = 1;
        evaluate_derivative(drawn.program, {q, 1, 1, k, 1, 1, at}, &value, &slope, 1);
        const score::Dual<double> read =
            functor.change(score::Dual<double>::variable(given), q, k, at);
        const auto same = [](double a, double b) {
          return (std::isnan(a) && std::isnan(b)) || a == b ||
                 std::abs(a - b) <= 1e-5 * (1 + std::abs(b));
        };
        ASSERT_TRUE(same(read.value, value) && same(read.slope, slope))
            << "change " << index << ": " << drawn.program.program().text();
      }
  });
}

}  // namespace
}  // namespace tilefold
