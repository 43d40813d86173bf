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
  figure.predicted_ms = 0.12;
  figure.first_result_ms = 1234.5;
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
  EXPECT_THAT(names, EndsWith("plan_us,run_us,clock_mhz,power_w,predicted_ms,first_result_ms"));
  ForwardFigure figure = measured(0.1);
  EXPECT_EQ(columns_of(forward_csv_row(figure)), columns_of(names));
  EXPECT_THAT(forward_csv_row(figure), EndsWith(",1755,,0.1200,1234.5\n")) << "no meter, no figure";
  figure.power_watts = 683.4;
  EXPECT_EQ(columns_of(forward_csv_row(figure)), columns_of(names));
  EXPECT_THAT(forward_csv_row(figure), EndsWith(",1755,683,0.1200,1234.5\n"));
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

ForwardFigure of_family(const char* family, int queries, double predicted, double measured_ms) {
  ForwardFigure figure;
  figure.point = {"choice", {8192}, 64, 8, 128, true, 0, DType::bf16, queries, family};
  figure.kernel = family;
  figure.predicted_ms = predicted;
  figure.median_ms = measured_ms;
  return figure;
}

TEST(ForwardChoice, TellsWhereTheModelIsWrongAndWhatThatCosts) {
  const std::string text =
      choice_summary({of_family("sm90", 1, 0.02, 0.04), of_family("sm80", 1, 0.03, 0.03),
                      of_family("sm90", 4, 0.02, 0.02), of_family("sm80", 4, 0.03, 0.06)});
  EXPECT_THAT(text, HasSubstr("sm90: predicted / measured 0.71 in the mean, 0.50 to 1.00, of 2"));
  EXPECT_THAT(text, HasSubstr("the fastest of 1 of 2 problems, at worst 1.33 of its time"));
  EXPECT_THAT(text, HasSubstr("D 128 heads 64/8 batch 1 1x8192: sm90 at 0.0400 ms (0.0200 "
                              "predicted), sm80 at 0.0300 (0.0300)"));
  EXPECT_EQ(choice_summary({measured(0.1)}), "");
}

TEST(ForwardPoints, OfChoiceFitACardAndNameEachFamily) {
  ForwardOptions options;
  options.sets = {"choice"};
  const std::vector<ForwardPoint> points = forward_points(options);
  ASSERT_GT(points.size(), 600u);
  ASSERT_EQ(points.size() % 3, 0u);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].family, std::vector({"sm90", "sm80", "any"})[i % 3]);
    EXPECT_TRUE(of_choice(points[i]));
    EXPECT_LE(
        4.0 * double(points[i].lengths.size()) * points[i].lengths[0] * 8 * points[i].head_dim,
        8e9);
  }
  // 4 queries that end 8192 keys: 8189 + 8190 + 8191 + 8192 pairs a head, less half of a triangle.
  const ForwardPoint four{"choice", {8192}, 1, 1, 128, true, 0, DType::bf16, 4, "sm90"};
  EXPECT_EQ(four.flops(), 4.0 * 128 * (4 * 8192 - 8));
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
