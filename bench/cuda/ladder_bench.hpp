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

/// The field's shapes: batch * length = tokens, heads * head_dim = hidden.
struct LadderOptions {
  std::vector<int> sequences = {4096};
  std::vector<int> head_dims = {64};
  std::vector<cuda::ladder::Visible> masks = {cuda::ladder::Visible::all_keys};
  std::vector<std::string> rungs;  // by name; none is all
  int tokens = 16384, hidden = 2048;
  int runs = 20;
};

/// One rung on one shape.
struct LadderRow {
  cuda::ladder::Rung rung{};
  cuda::ladder::Shape shape{};
  double milliseconds = 0;  // median
  double fastest = 0, slowest = 0;
  double flops = 0;  // 4 * head_dim * visible pairs; causal over equal lengths: half of all
  std::size_t workspace_bytes = 0;
  cuda::ladder::Traffic traffic{};
  double max_error = 0;      // against float64, over the sampled rows
  double max_reference = 0;  // largest element of the reference there
  std::string refused;       // why there is no time
  double tflops() const { return milliseconds > 0 ? flops / milliseconds / 1e9 : 0; }
};

/// Counters of one kernel of one launch as Nsight Compute reads them; "-" where this card has none.
struct LadderCounters {
  std::string kernel;  // "v2::forward<64>"
  std::string device_bytes, l2_hit_percent, tensor_pipe_percent, barrier_stalls, bank_conflicts;
};

struct LadderReport {
  std::string device;
  LadderOptions options;
  std::vector<LadderRow> rows;
};

using LadderProgress = std::function<void(double part, const std::string& note)>;

/// Throws Error(unsupported) where this build has no CUDA or the machine no device. A rung that
/// refuses a shape, or has no memory for it, keeps the reason in its row.
LadderReport measure_ladder(const LadderOptions& options, const LadderProgress& progress = {});

/// One launch of each rung on the first shape, without timing: what a profiler looks at.
void launch_each_rung(const LadderOptions& options);

/// Runs `command` under ncu where that is installed and returns its counters by kernel; throws
/// Error(unsupported) where it is not installed or may not read the counters.
std::vector<LadderCounters> profile(const std::string& command);

std::string to_table(const LadderReport& report);
std::string to_table(const std::vector<LadderCounters>& counters);
/// Comment lines with device, date, commit and command; then one line a row.
std::string to_csv(const LadderReport& report, const std::string& command);
/// TFLOPS by rung, a panel for each head dimension and mask.
std::string to_svg(const LadderReport& report);

}  // namespace tilefold::bench
