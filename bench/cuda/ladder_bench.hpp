// The rungs of the ladder side by side on one shape after the other.
//
//   const LadderReport report = measure_ladder({.sequences = {4096}});
//   std::cout << to_table(report);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cuda/launch/ladder.hpp"

namespace tilefold::bench {

/// Which rungs are measured where none is named.
enum class RungChoice { all, story };

/// Timed launches of a rung: what the medians of docs/ladder.md are of.
inline constexpr int most_runs = 20;

/// The field's shapes: batch * length = tokens, heads * head_dim = hidden.
struct LadderOptions {
  std::vector<int> sequences = {4096};
  std::vector<int> head_dims = {64};
  std::vector<cuda::ladder::Visible> masks = {cuda::ladder::Visible::all_keys};
  std::vector<std::string> rungs;  // by name; none is `choice`
  RungChoice choice = RungChoice::all;
  int tokens = 16384, hidden = 2048;
  int runs = most_runs;                // at most; slow rungs get fewer, see timed_runs()
  double most_workspace_bytes = 20e9;  // a rung that needs more is skipped
  double time_limit_s = 0;             // rows that would begin later are skipped; 0: none
};

/// One rung on one shape.
struct LadderRow {
  cuda::ladder::Rung rung{};
  cuda::ladder::Shape shape{};
  double milliseconds = 0;  // median
  double fastest = 0, slowest = 0;
  int runs = 0;      // timed
  double flops = 0;  // 4 * head_dim * visible pairs; causal over equal lengths: half of all
  std::size_t workspace_bytes = 0;
  cuda::ladder::Traffic traffic{};
  double max_error = 0;      // against float64, over the sampled rows
  double max_reference = 0;  // largest element of the reference there
  std::string refused;       // why there is no time
  double tflops() const { return milliseconds > 0 ? flops / milliseconds / 1e9 : 0; }
};

struct LadderReport {
  std::string device;
  LadderOptions options;
  std::vector<LadderRow> rows;
};

/// Timed launches of a rung whose first launch took so long: `most` for the fast ones, 3 for those
/// of 50 to 100 ms, and never more than fill 0.3 s. 1 ms: 20 of 20; 10 ms: 15; 60 ms: 3; 150 ms: 2;
/// 3 s: 1.
int timed_runs(double milliseconds, int most);

using LadderProgress = std::function<void(double part, const std::string& note)>;
/// Called for each row as soon as it is measured.
using LadderSink = std::function<void(const LadderRow& row)>;

/// Throws Error(unsupported) where this build has no CUDA or the machine no device. A rung that
/// refuses a shape, or has no memory for it, keeps the reason in its row. Shapes are taken by
/// length, short ones first.
LadderReport measure_ladder(const LadderOptions& options, const LadderProgress& progress = {},
                            const LadderSink& sink = {});

/// The device's name, for a report's head.
std::string ladder_device();

/// The rungs that the options choose, by name, in their order.
std::vector<std::string> rung_names(const LadderOptions& options);

/// One launch of each rung on the first shape, without timing: what a profiler looks at. An empty
/// kernel named rung_marker goes before each rung, launched or not.
void launch_each_rung(const LadderOptions& options);

std::string to_table(const LadderReport& report);
/// Comment lines with device, date, commit and command, and the names of the columns.
std::string csv_head(const std::string& device, const std::string& command);
std::string csv_line(const LadderRow& row);
/// TFLOPS by rung, a panel for each head dimension and mask.
std::string to_svg(const LadderReport& report);

}  // namespace tilefold::bench
