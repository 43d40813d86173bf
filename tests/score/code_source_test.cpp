// Law: the arguments that code_of() writes are the functor that its text defines. The types of the
// text are those of this program, so the bytes can be read back and asked.
#include "score/code_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "support/text_formula.hpp"

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
