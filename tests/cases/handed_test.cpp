// Law: every handed case that the library can express passes, in every dtype it states; what it
// cannot express yet is listed here, so that neither side changes unseen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "support/cases_runner.hpp"

namespace tilefold::testing {
namespace {

const char* const handed_path = TILEFOLD_SOURCE_DIR "/tests/cases/handed.jsonl";

TEST(HandedCases, PassOrAreKnownToBeUnsupported) {
  std::ostringstream report;
  const CasesSummary summary = run_cases(handed_path, {}, report);
  EXPECT_EQ(summary.count(CaseStatus::failed), 0) << report.str();
  std::vector<std::string> unsupported;
  for (const CaseReport& r : summary.reports)
    if (r.status == CaseStatus::unsupported) unsupported.push_back(r.id);
  EXPECT_THAT(
      unsupported,
      ::testing::UnorderedElementsAre(
          // gradients
          "zero-5", "slack-1", "stride-7", "cap-6", "sink-6", "smod-3", "det-1", "btail-1",
          "btail-4",
          // the KV cache
          "slot-1", "slot-4", "layout-4", "ntk-4", "hash-1", "extra-1", "full-1", "gap-1",
          "stale-1", "free-1", "leak-1", "cow-1", "spec-1", "wev-1", "wev-4", "budget-1", "off-1",
          // integer caches
          "int-1", "int-4", "int-5", "int-8",
          // rotary positions
          "rope-1", "rope-4", "pos-1", "pos-4", "yarn-1", "yarn-4", "ntk-1", "l3-1",
          // the scheduler
          "pre-1", "starve-1", "imposs-1", "live-1", "dead-1", "abort-1",
          // properties of GPUs and of rings in words, dropout
          "binv-4", "stream-1", "drop-1", "ring-9"));
  EXPECT_EQ(summary.reports.size(), 114u);
}

// What backends without run-time formulas are given in their place must mean the same.
TEST(HandedCases, PassWithTheirFormulasAsBias) {
  CasesOptions options;
  options.formulas = Formulas::as_data;
  std::ostringstream report;
  const CasesSummary summary = run_cases(handed_path, options, report);
  EXPECT_EQ(summary.count(CaseStatus::failed), 0) << report.str();
  EXPECT_EQ(summary.count(CaseStatus::passed), 66);
  EXPECT_THAT(report.str(), ::testing::HasSubstr("(its formula as a bias)"));
}

TEST(HandedCases, StrictRunsCountUnsupportedCasesAsFailures) {
  CasesSummary summary;
  summary.reports.push_back({"a", "", "", CaseStatus::unsupported, "", 0, {}});
  EXPECT_TRUE(summary.ok());
  summary.strictness = Strictness::strict;
  EXPECT_FALSE(summary.ok());
}

TEST(HandedCases, AMissingFileIsAnError) {
  std::ostringstream report;
  EXPECT_THROW(run_cases("no such file.jsonl", {}, report), std::runtime_error);
}

}  // namespace
}  // namespace tilefold::testing
