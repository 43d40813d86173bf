// How often a rung is timed, and what is written of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "bench/cuda/ladder_bench.hpp"

namespace tilefold::bench {
namespace {

using cuda::ladder::Element;

TEST(TimedRuns, SlowRungsGetFew) {
  EXPECT_EQ(timed_runs(0.0, 20), 20);
  EXPECT_EQ(timed_runs(1, 20), 20);
  EXPECT_EQ(timed_runs(10, 20), 15);
  EXPECT_EQ(timed_runs(60, 20), 3);
  EXPECT_EQ(timed_runs(100, 20), 3);
  EXPECT_EQ(timed_runs(150, 20), 2);
  EXPECT_EQ(timed_runs(3000, 20), 1);
  EXPECT_EQ(timed_runs(1, 5), 5) << "never more than asked for";
  // Timed launches together, whatever one takes: below 0.3 s, or a single launch.
  for (double ms = 0.1; ms < 5000; ms *= 1.1) {
    const int runs = timed_runs(ms, 1000);
    EXPECT_TRUE(runs == 1 || runs * ms <= 300) << ms;
  }
}

LadderRow measured() {
  LadderRow row;
  row.rung.name = "v2";
  row.rung.adds = "rows, \"and\" more";
  row.rung.element = Element::float32;
  row.rung.code_lines = 124;
  row.shape = {.batch = 4, .heads = 32, .query_length = 4096, .key_length = 4096};
  row.milliseconds = 50, row.fastest = 49, row.slowest = 51, row.runs = 3;
  row.flops = 5e11;
  row.traffic = {100, 200};
  return row;
}

/// Commas outside of quotes.
int columns_of(const std::string& line) {
  bool quoted = false;
  int commas = 0;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    commas += c == ',' && !quoted ? 1 : 0;
  }
  return commas + 1;
}

TEST(LadderCsv, EveryLineHasTheColumnsOfTheHead) {
  std::istringstream head(csv_head("a device", "a command"));
  std::string line, names;
  while (std::getline(head, line))
    if (line[0] != '#') names = line;
  LadderRow row = measured();
  EXPECT_EQ(columns_of(csv_line(row)), columns_of(names));
  EXPECT_EQ(csv_line(row).substr(0, csv_line(row).find(",4096")), "v2,f32,4,32,64");
  EXPECT_NE(csv_line(row).find(",50.0000,49.0000,51.0000,3,10.000,"), std::string::npos);
  EXPECT_NE(csv_line(row).find("\"rows, \"\"and\"\" more\""), std::string::npos);
  row.milliseconds = 0;
  row.refused = "skipped: needs 34.3 GB of workspace, the bound is 20.0 GB";
  const std::string skipped = csv_line(row);
  EXPECT_EQ(columns_of(skipped), columns_of(names));
  EXPECT_EQ(std::count(skipped.begin(), skipped.end(), '\n'), 1);
}

TEST(LadderTableText, ARefusedRungKeepsItsReason) {
  LadderRow refused = measured();
  refused.milliseconds = 0;
  refused.refused = "skipped: needs 34.3 GB of workspace";
  const LadderReport report{"a device", {}, {measured(), refused}};
  const std::string text = to_table(report);
  EXPECT_NE(text.find("10.00"), std::string::npos) << text;
  EXPECT_NE(text.find("skipped: needs 34.3 GB"), std::string::npos) << text;
}

}  // namespace
}  // namespace tilefold::bench
