// Law: the reference gives the numbers of the handed cases, forward and backward. They were
// computed independently, from the mathematics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/attention.hpp"
#include "support/case_comparison.hpp"
#include "support/handed_problem.hpp"

namespace tilefold::testing {
namespace {

const std::vector<HandedCase>& handed_cases() {
  static const auto cases = read_handed_cases(TILEFOLD_SOURCE_DIR "/tests/cases/handed.jsonl");
  return cases;
}

/// Rows of all sequences one after the other, as ragged tensors have them.
CaseArray in_token_order(const reference::Table& table) {
  CaseArray array;
  array.shape = {0, table.heads(), table.columns()};
  for (int b = 0; b < table.sequences(); ++b)
    for (int row = 0; row < table.rows(b); ++row, ++array.shape[0])
      for (int head = 0; head < table.heads(); ++head)
        array.data.insert(array.data.end(), table.at(b, row, head),
                          table.at(b, row, head) + table.columns());
  return array;
}

CaseArray without_last_axis(CaseArray array) {
  array.shape.pop_back();
  return array;
}

TEST(ReferenceMatchesHandedCases, ForwardOutAndLse) {
  int checked = 0;
  for (const HandedCase& c : handed_cases()) {
    if (c.op != "attention" && c.op != "paged_attention") continue;
    if (c.expected_texts.count("error") || !c.tolerances.count("fp64")) continue;
    const CaseProblem drawn = attention_problem(c, DType::f64);
    const core::Geometry g = core::resolve(drawn.problem);
    const reference::Result result =
        reference::forward({g, drawn.problem.tensors, drawn.problem.options});
    CaseComparison compare(c, "fp64");
    compare.check(in_token_order(result.out), without_last_axis(in_token_order(result.lse)));
    EXPECT_TRUE(compare.passed()) << c.id << ": " << compare.text();
    ++checked;
  }
  EXPECT_GE(checked, 44);
}

/// A "dq" or "dq_rows" of the case.
void check_gradient(const HandedCase& c, const std::string& name, const CaseArray& got,
                    CaseComparison& compare) {
  if (c.expected.count(name)) compare.check_array(name, got, c.expected.at(name));
  if (c.expected.count(name + "_rows")) {
    const CaseArray& want = c.expected.at(name + "_rows");
    compare.check_array(name, rows_of(got, want.rows), want);
  }
}

reference::Table table_of(const CaseArray& array, const core::Geometry& g) {
  std::vector<int> rows;
  for (const core::Sequence& s : g.sequences) rows.push_back(s.query_length);
  reference::Table table(rows, g.query_heads, g.value_dim);
  std::size_t next = 0;
  for (int b = 0; b < g.batch; ++b)
    for (int row = 0; row < table.rows(b); ++row)
      for (int head = 0; head < g.query_heads; ++head)
        for (int column = 0; column < g.value_dim; ++column)
          table.at(b, row, head)[column] = array.data.at(next++);
  return table;
}

TEST(ReferenceMatchesHandedCases, BackwardToQueryKeyValueAndSinks) {
  int checked = 0;
  for (const HandedCase& c : handed_cases()) {
    if (c.op != "attention_backward" || !c.tolerances.count("fp64")) continue;
    const CaseProblem drawn = attention_problem(c, DType::f64);
    const core::Geometry g = core::resolve(drawn.problem);
    const reference::Gradients d = reference::backward(
        {g, drawn.problem.tensors, drawn.problem.options}, table_of(c.inputs.at("dout"), g));
    CaseComparison compare(c, "fp64");
    check_gradient(c, "dq", in_token_order(d.dq), compare);
    check_gradient(c, "dk", in_token_order(d.dk), compare);
    check_gradient(c, "dv", in_token_order(d.dv), compare);
    if (c.expected.count("dsinks"))
      compare.check_values("dsinks", d.dsinks, c.expected.at("dsinks").data, 1e-11);
    EXPECT_TRUE(compare.passed()) << c.id << ": " << compare.text();
    ++checked;
  }
  EXPECT_GE(checked, 7);
}

TEST(HandedCaseGenerator, GivesTheNumbersThatTheFormatStates) {
  // x1 = 6364136223846793005 + 1442695040888963407 for seed 1, of which the top 53 bits count.
  const std::vector<double> x = generate(2, 1, 1);
  EXPECT_DOUBLE_EQ(x[0], 2 * (double((7806831264735756412ULL) >> 11) / 9007199254740992.0) - 1);
  EXPECT_EQ(generate(4, 1, 1, -6)[0] * 64, std::nearbyint(x[0] * 64));
}

}  // namespace
}  // namespace tilefold::testing
