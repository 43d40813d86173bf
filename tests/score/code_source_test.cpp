// Law: the arguments that code_of() writes are the functor that its text defines. The types of the
// text are those of this program, so the bytes can be read back and asked.
#include "score/code_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "support/text_formula.hpp"
#include "tilefold/expression.hpp"

namespace tilefold::testing {
namespace {

using score::as_text::Dilated;
using score::as_text::Dilated_text;
using ::testing::HasSubstr;
using ::testing::Not;

/// Leaves side tensors where they are.
class NoCopies final : public score::DeviceCopies {
 public:
  void operator()(score::Lookup&) const override { ++visited; }
  void operator()(score::Table&) const override { ++visited; }
  void operator()(const float*&, long long count) const override { ++visited, elements = count; }
  void operator()(const int*&, long long) const override { ++visited; }
  void operator()(score::SideArray<int>&, const TensorView&) const override { ++visited; }
  void operator()(score::SideArray<float>&, const TensorView&) const override { ++visited; }
  int batch() const override { return 2; }
  int query_heads() const override { return 4; }
  mutable int visited = 0;
  mutable long long elements = 0;
};

/// The arguments of a formula as the type that its text joins.
template <class Functor, class Node>
Functor read_back(const Node* node, const NoCopies& copies = {}) {
  const auto source = score::code_of(node);
  EXPECT_NE(source, nullptr);
  EXPECT_EQ(source->code().size, sizeof(Functor)) << source->code().type;
  EXPECT_EQ(source->code().alignment, alignof(Functor)) << source->code().type;
  std::vector<unsigned char> bytes(sizeof(Functor));
  source->write_arguments(bytes.data(), copies);
  Functor functor;
  std::memcpy(static_cast<void*>(&functor), bytes.data(), sizeof functor);
  return functor;
}

TEST(CodeSource, JoinedMasksLieAsTheirTypesDo) {
  const Mask dilated = text_mask(Dilated{3}, Dilated_text);
  const auto both = read_back<score::And<score::Causal, Dilated>>((causal() && dilated).node());
  EXPECT_EQ(both.b.step, 3);
  const auto three = read_back<score::Or<score::And<Dilated, score::Window>, score::Not<Dilated>>>(
      ((dilated && window(5, 7)) || !text_mask(Dilated{11}, Dilated_text)).node());
  EXPECT_EQ(three.a.a.step, 3);
  EXPECT_EQ(three.a.b.left, 5);
  EXPECT_EQ(three.a.b.right, 7);
  EXPECT_EQ(three.b.a.step, 11);
}

TEST(CodeSource, ChainsLieAsTheirTypesDo) {
  const float slopes[4] = {1, 2, 3, 4};
  const ScoreChange chain =
      softcap(30).then(alibi(TensorView(slopes, DType::f32, {4}))).then(softcap(5));
  const NoCopies copies;
  const auto read =
      read_back<score::Chain<score::Chain<score::SoftCap, score::Alibi>, score::SoftCap>>(
          chain.node(), copies);
  EXPECT_EQ(read.a.a.cap, 30);
  EXPECT_EQ(read.a.b.slopes, slopes);
  EXPECT_EQ(read.b.cap, 5);
  EXPECT_EQ(copies.visited, 1);
  EXPECT_EQ(copies.elements, 4);
}

TEST(CodeSource, ABiasHasNone) {
  const std::vector<float> bias(2 * 3 * 8);
  EXPECT_EQ(score::code_of(additive_bias(TensorView(bias.data(), DType::f32, {1, 2, 3, 8})).node()),
            nullptr);
}

TEST(CodeSource, TextsOfOneNameStandInNamespacesOfTheirOwn) {
  const Mask twice = text_mask(Dilated{3}, Dilated_text) && text_mask(Dilated{4}, Dilated_text);
  const score::FormulaCode code = score::code_of(twice.node())->code();
  EXPECT_THAT(code.definitions, HasSubstr("namespace first {"));
  EXPECT_THAT(code.definitions,
              HasSubstr("using Joined = ::tilefold::score::And<first::Dilated, second::Dilated>;"));
  EXPECT_EQ(code.type, "Joined");
}

TEST(CodeSource, NewArgumentsAreNoNewCode) {
  const auto text = [](int step) {
    const Mask mask = causal() && text_mask(Dilated{step}, Dilated_text);
    return score::code_of(mask.node())->code().definitions;
  };
  EXPECT_EQ(text(3), text(4));
  EXPECT_THAT(text(3), Not(HasSubstr("3;")));
}

std::string text_of(const char* score) {
  const Scalar cap("cap", 30.0);
  return score::code_of(parse_score(score, {{}, {cap}}).node())->code().definitions;
}

TEST(CodeSource, WhatIsTheSameForAllElementsIsDividedByOnce) {
  EXPECT_THAT(text_of("s / cap"), HasSubstr("op::Divide::by("));
  EXPECT_THAT(text_of("cap / s"), HasSubstr("op::Divide::of("));
  EXPECT_THAT(text_of("s / s"), HasSubstr("op::Divide::of("));
}

TEST(CodeSource, ACappedScoreIsOneOperation) {
  for (const char* text : {"cap * tanh(s / cap)", "tanh(s / cap) * cap", "8.0 * tanh(s / 8.0) + s"})
    EXPECT_THAT(text_of(text), HasSubstr("op::Tanh::capped(")) << text;
  for (const char* text : {"cap * tanh(s / 8.0)", "8.0 * tanh(s * 8.0)", "s * tanh(s / s)"})
    EXPECT_THAT(text_of(text), Not(HasSubstr("capped"))) << text;
  // A comparison would see what the fast form is off near 0.
  const Mask mask = parse_mask("8.0 * tanh(real(k) / 8.0) > 0.5");
  EXPECT_THAT(score::code_of(mask.node())->code().definitions, Not(HasSubstr("capped")));
}

TEST(CodeSource, PowersOfTwoAreDividedByShifts) {
  const auto text = [](const char* mask) {
    return score::code_of(parse_mask(mask).node())->code().definitions;
  };
  EXPECT_THAT(text("q // 128 == k // 128"), HasSubstr("op::FloorDivide::by_power<7>("));
  EXPECT_THAT(text("q % 64 == k % 64"), HasSubstr("op::Modulo::by_power<6>("));
  EXPECT_THAT(text("q // 100 == k // 100"), Not(HasSubstr("by_power")));
  EXPECT_THAT(text("q // -4 == k % -4"), Not(HasSubstr("by_power")));
}

TEST(CodeSource, TellsTheBlocksOfQueriesThatItReads) {
  const auto block = [](const Mask& mask) {
    return score::code_of(mask.node())->code().query_block;
  };
  const Mask blocks = parse_mask("q // 128 == k // 64");
  EXPECT_EQ(block(blocks), 128);
  EXPECT_EQ(block(parse_mask("(q + off) // 96 == k // 64 or k < 4")), 96);
  EXPECT_EQ(block(parse_mask("k // 64 == 3")), 0);
  EXPECT_EQ(block(!blocks && causal()), 128);
  EXPECT_EQ(block(parse_mask("q // 32 == k // 32") || blocks), 128);
}

TEST(CodeSource, AFunctorHasNone) {
  const Mask lambda = mask([](auto q, auto k, auto) { return k <= q; });
  EXPECT_EQ(score::code_of(lambda.node()), nullptr);
  EXPECT_EQ(score::code_of((causal() && lambda).node()), nullptr);
  EXPECT_EQ(score::code_of((!lambda).node()), nullptr);
  EXPECT_FALSE(score::has_code(lambda.node()));
  EXPECT_FALSE(score::has_code((causal() && window(3)).node()));
  EXPECT_TRUE(score::has_code((lambda || text_mask(Dilated{3}, Dilated_text)).node()));
  EXPECT_EQ(score::code_of(Mask().node())->code().type, "::tilefold::score::Everything");
  EXPECT_EQ(score::code_of(ScoreChange().node())->code().type, "::tilefold::score::Unchanged");
}

}  // namespace
}  // namespace tilefold::testing
