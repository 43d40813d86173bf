// Law: a formula on the command line computes what the built-in option computes, joins the other
// options as docs/semantics.md says, and a wrong one is refused with a mark under what is wrong.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/files/tensor_file.hpp"
#include "support/random.hpp"
#include "support/tensor_memory.hpp"
#include "tool_run.hpp"

namespace tilefold::testing {

namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class FormulasTest : public ToolTest {
 protected:
  // 2 sequences, 150 queries of 4 heads over 200 keys of 2 heads: several tiles.
  void SetUp() override {
    ToolTest::SetUp();
    drawn("q.npy", {2, 150, 4, 16});
    drawn("k.npy", {2, 200, 2, 16});
    drawn("v.npy", {2, 200, 2, 16});
  }
  void drawn(const std::string& name, const Extents& shape) {
    files::OwnedTensor tensor = files::allocate(DType::f32, shape);
    for (std::int64_t i = 0; i < tensor.view().element_count(); ++i)
      store(tensor.output(), i, random_.uniform(-1, 1));
    files::write_tensor(path(name), tensor.view());
  }
  template <class Value>
  void filled(const std::string& name, DType dtype, const Extents& shape, const Value& value) {
    files::OwnedTensor tensor = files::allocate(dtype, shape);
    for (std::int64_t i = 0; i < tensor.view().element_count(); ++i)
      store(tensor.output(), i, double(value(i)));
    files::write_tensor(path(name), tensor.view());
  }
  static Words attend(const Words& options) {
    Words words{"attend", "-q", "q.npy", "-k", "k.npy", "-v", "v.npy", "-o", "o.npy"};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }
  std::vector<double> output(const Words& options) {
    const ToolRun run = tool(attend(options));
    EXPECT_EQ(run.code, 0) << ::testing::PrintToString(options) << run.out << run.err;
    std::vector<double> values;
    const files::OwnedTensor out = files::read_tensor(path("o.npy"));
    for (std::int64_t i = 0; i < out.view().element_count(); ++i)
      values.push_back(load(out.view(), i));
    return values;
  }
  /// Masks hide the same keys, so that not a bit differs.
  void expect_same(const Words& formula, const Words& built_in) {
    SCOPED_TRACE(::testing::PrintToString(formula));
    const std::vector<double> want = output(built_in);
    EXPECT_EQ(output(formula), want);
    EXPECT_NE(output({}), want) << "the options change nothing";
  }
  void expect_near(const Words& formula, const Words& built_in) {
    SCOPED_TRACE(::testing::PrintToString(formula));
    const std::vector<double> got = output(formula), want = output(built_in);
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5) << i;
  }

  Random random_{11};
};

TEST_F(FormulasTest, MasksAreTheBuiltIns) {
  filled("ids.npy", DType::i32, {200}, [](std::int64_t i) { return i / 60; });
  filled("first.npy", DType::i64, {2}, [](std::int64_t b) { return 70 + 30 * b; });
  expect_same({"--mask", "k <= q + off"}, {"--causal"});
  expect_same({"--mask", "-40 <= k - (q + off) <= 7"}, {"--window", "40,7"});
  expect_same({"--mask", "q + off - k <= reach", "--scalar", "reach=40"}, {"--window", "40"});
  expect_same({"--mask", "q + off - k <= reach", "--scalar", "reach=0x28"}, {"--window", "40"});
  expect_same({"--mask", "k - q - off <= -reach", "--scalar", "reach=-0X0"}, {"--causal"});
  expect_same({"--mask", "real(k) < limit and k <= q + off", "--scalar", "limit=inf"},
              {"--causal"});
  expect_same({"--mask", "doc[q + off] == doc[k]", "--tensor", "doc=ids.npy"},
              {"--documents", "ids.npy"});
  expect_same({"--mask", "k <= q + off or k < first[batch]", "--tensor", "first=first.npy"},
              {"--causal", "--prefix", "70,100"});
}

TEST_F(FormulasTest, AMaskJoinsTheOthersWithAnd) {
  filled("ids.npy", DType::i32, {200}, [](std::int64_t i) { return i / 60; });
  expect_same({"--causal", "--mask", "q + off - k <= 40"}, {"--causal", "--window", "40"});
  expect_same({"--window", "40", "--documents", "ids.npy", "--mask", "k <= q + off"},
              {"--causal", "--window", "40", "--documents", "ids.npy"});
  expect_same({"--causal", "--prefix", "70", "--mask", "q + off - k <= 40"},
              {"--causal", "--prefix", "70", "--window", "40"});
}

TEST_F(FormulasTest, ScoresAreTheBuiltIns) {
  drawn("slopes.safetensors:slopes", {4});
  drawn("bias.npy", {2, 4, 150, 200});
  expect_near({"--score", "cap * tanh(s / cap)", "--scalar", "cap=0.5"}, {"--softcap", "0.5"});
  expect_near({"--score", "s + slope[head] * (k - (q + off))", "--tensor",
               "slope=slopes.safetensors:slopes"},
              {"--alibi", "slopes.safetensors:slopes"});
  expect_near({"--score", "s + bias[batch, head, q, k]", "--tensor", "bias=bias.npy"},
              {"--bias", "bias.npy"});
}

TEST_F(FormulasTest, AScoreComesAfterSoftcapAlibiAndBias) {
  drawn("slopes.npy", {4});
  drawn("bias.npy", {1, 4, 150, 200});
  const Words names{"--tensor",      "slope=slopes.npy", "--tensor",
                    "bias=bias.npy", "--scalar",         "cap=5e-1"};
  Words one{"--score",
            "2 * (cap * tanh(s / cap) + slope[head] * (k - (q + off)) + bias[0, head, q, k])"};
  one.insert(one.end(), names.begin(), names.end());
  expect_near(
      {"--softcap", "0.5", "--alibi", "slopes.npy", "--bias", "bias.npy", "--score", "2 * s"}, one);
}

TEST_F(FormulasTest, FormulasAreCheckedAgainstFloat64) {
  filled("tree.npy", DType::boolean, {150, 200}, [&](std::int64_t) { return random_.chance(0.5); });
  const ToolRun run =
      tool(attend({"--mask", "tree[q, k] and k < key_length and q < query_length - 1", "--tensor",
                   "tree=tree.npy", "--score", "s * (1.0 + 0.1 * batch)", "--check"}));
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("within the rule"));
}

TEST_F(FormulasTest, ExplainPlansFormulas) {
  const ToolRun run = tool({"explain", "--query-length", "256", "--mask", "q - k <= w and k <= q",
                            "--scalar", "w=63", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const ToolRun same =
      tool({"explain", "--query-length", "256", "--causal", "--window", "63", "--json"});
  const auto tiles = [](const ToolRun& of) { return nlohmann::json::parse(of.out).at("tiles"); };
  EXPECT_EQ(tiles(run), tiles(same));
}

TEST_F(FormulasTest, AWrongTextIsShownWithAMark) {
  const auto expect = [&](const Words& options, const std::string& message) {
    const ToolRun run = tool(attend(options));
    EXPECT_EQ(run.code, 2) << run.out;
    EXPECT_EQ(run.err, message);
    EXPECT_FALSE(exists("o.npy"));
  };
  expect({"--mask", "k <= q + oof"},
         "tilefold: --mask: 'oof' is no name of this formula: it may be one of q, k, off, s "
         "(of scores), batch, head, kv_head, query_length, key_length, inf, true, false\n"
         "  k <= q + oof\n"
         "           ^\n");
  expect({"--score", "s + (q\n\x1b[31m"},
         "tilefold: --score: this character means nothing in a formula\n"
         "  s + (q  [31m\n"
         "         ^\n");
  // A long text is cut to a line around the mark.
  std::string text = "k <= q";
  for (int i = 0; i < 40; ++i) text += " and k != " + std::to_string(i);
  const ToolRun run = tool(attend({"--mask", text + " nad q"}));
  EXPECT_THAT(run.err, HasSubstr("expected an operator or the end of the formula\n  ..."));
  EXPECT_THAT(run.err, HasSubstr(" and k != 39 nad q\n"));
  const std::size_t shown = run.err.find('\n') + 1;
  EXPECT_LE(run.err.find('\n', shown) - shown, 80u) << "more than a line of a terminal";
  expect({"--mask", "q + k"}, "tilefold: --mask: a mask must be a truth: q + k is an integer\n");
  expect({"--score", "q < k"}, "tilefold: --score: a score must be a number: q < k is a truth\n");
}

TEST_F(FormulasTest, WrongNamesAndValues) {
  filled("ids.npy", DType::i32, {200}, [](std::int64_t i) { return i / 60; });
  filled("few.npy", DType::i32, {20}, [](std::int64_t i) { return i / 60; });
  filled("wide.npy", DType::i64, {200}, [](std::int64_t) { return 3e9; });
  drawn("five.npy", {1, 2, 1, 2, 3});
  const auto wrong = [&](const Words& options, int code, const std::string& message) {
    expect_error(attend(options), code, message);
    EXPECT_FALSE(exists("o.npy"));
  };
  const auto scalar = [&](const char* given, const char* message) {
    wrong({"--mask", "k < w", "--scalar", given}, 2, message);
  };
  scalar("w", "--scalar is 'w': it must be NAME=VALUE");
  scalar("w=", "--scalar is 'w=': it must be NAME=VALUE");
  scalar("=3", "--scalar is '=3': it must be NAME=VALUE");
  scalar("w=three", "--scalar w is 'three': it must be an integer of 32 bits, a real");
  scalar("w=0x", "--scalar w is '0x': it must be an integer");
  scalar("w=0x-1", "--scalar w is '0x-1': it must be an integer");
  scalar("w=0x80000000", "--scalar w is '0x80000000': it must be an integer");
  scalar("w=99999999999", "--scalar w is '99999999999': it must be an integer of 32 bits");
  scalar("w=200000000", "scalar w is 200000000: integers of a formula lie within");
  scalar("2w=3", "the name of a scalar is '2w'");
  wrong({"--mask", "k < w", "--scalar", "w=1", "--scalar", "w=2"}, 2, "name w is given twice");
  wrong({"--mask", "k < 5", "--scalar", "w=1"}, 2, "--scalar w is read by no --mask or --score");
  wrong({"--tensor", "doc=ids.npy"}, 2, "--tensor doc is read by no --mask or --score");
  const auto tensor = [&](const char* given, int code, const char* message) {
    wrong({"--mask", "doc[k] == doc[q + off]", "--tensor", given}, code, message);
  };
  tensor("doc", 2, "--tensor is 'doc': it must be NAME=FILE");
  tensor("a b=ids.npy", 2, "the name of a side tensor is 'a b'");
  tensor("doc=missing.npy", 4, "missing.npy");
  tensor("doc=wide.npy", 2, "its entries must fit into 32 bits");
  tensor("doc=five.npy", 3, "it must have 1 to 4 axes");
  tensor("doc=few.npy", 3, "side tensor doc is i32 [20]: axis 0 is read at ");
  wrong({"--mask", "k % n == 0", "--scalar", "n=0"}, 3, "scalar n is 0");
  wrong({"--mask", ""}, 2, "--mask: the text is empty");
  wrong({"--mask", "true", "--mask", "true"}, 2, "--mask is given 2 times");
  expect_error({"verify", "--mask", "true"}, 2, "--mask");
}

}  // namespace

}  // namespace tilefold::testing
