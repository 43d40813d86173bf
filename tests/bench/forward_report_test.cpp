// Law: every line of the forward's CSV has the columns of its head, with and without a meter, and
// the chart reads what is written.
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "bench/cuda/forward_figures.hpp"
#include "bench/forward_grid.hpp"

namespace tilefold::bench {

namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

ForwardFigure measured(double milliseconds) {
  ForwardFigure figure;
  figure.point = {"grid", std::vector<int>(32, 512), 16, 16, 128, true};
  figure.kernel = "sm90 bf16 d128 128x128";
  figure.launching = Launching::queued;
  figure.median_ms = figure.fastest_ms = figure.slowest_ms = milliseconds;
  figure.clock_mhz = 1754.6;
  return figure;
}

std::ptrdiff_t columns_of(const std::string& line) {
  return 1 + std::count(line.begin(), line.end(), ',');
}

TEST(ForwardCsv, EveryLineHasTheColumnsOfTheHead) {
  std::istringstream head(forward_csv_head("NVIDIA H200", "tilefold bench forward"));
  std::string line, names;
  while (std::getline(head, line))
    if (line[0] != '#') names = line;
  EXPECT_THAT(names, EndsWith("plan_us,run_us,clock_mhz,power_w"));
  ForwardFigure figure = measured(0.1);
  EXPECT_EQ(columns_of(forward_csv_row(figure)), columns_of(names));
  EXPECT_THAT(forward_csv_row(figure), EndsWith(",1755,\n")) << "no meter, no figure";
  figure.power_watts = 683.4;
  EXPECT_EQ(columns_of(forward_csv_row(figure)), columns_of(names));
  EXPECT_THAT(forward_csv_row(figure), EndsWith(",1755,683\n"));
}

TEST(ForwardTable, ShowsClockAndPowerBesideTflops) {
  ForwardFigure figure = measured(0.1);
  figure.power_watts = 683.4;
  EXPECT_THAT(forward_table({figure}), HasSubstr("TFLOPS   MHz     W  kernel"));
  EXPECT_THAT(forward_table({figure}), HasSubstr("343.6  1755   683  sm90"));
}

TEST(ForwardCsv, IsWhatTheChartReads) {
  GridResults grid;
  add_results(grid, forward_csv_head("NVIDIA H200", "x") + forward_csv_row(measured(0.1)), "f.csv");
  ASSERT_EQ(grid.points.size(), 1u);
  EXPECT_THAT(grid.origin, HasSubstr("NVIDIA H200, "));
  EXPECT_EQ(grid.points[0].contender, "tilefold");
  EXPECT_TRUE(grid.points[0].causal);
  EXPECT_EQ(grid.points[0].length, 512);
  EXPECT_NEAR(grid.points[0].tflops, 343.6, 0.1);
}

TEST(ForwardPoints, TheGridHas36) {
  const std::vector<ForwardPoint> points = forward_points({});
  EXPECT_EQ(points.size(), 36u);
  for (const ForwardPoint& p : points) {
    EXPECT_EQ(p.query_heads * p.head_dim, 2048);
    EXPECT_EQ(int(p.lengths.size()) * p.lengths[0], 16384);
  }
}

}  // namespace

}  // namespace tilefold::bench
