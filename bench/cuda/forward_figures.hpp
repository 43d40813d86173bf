// The forward's speed on a GPU, through the public API: `tilefold bench forward`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tilefold/dtype.hpp"

namespace tilefold::bench {

/// Lengths of a batch and who shares keys.
struct ForwardPoint {
  std::string set;           // "grid", "gqa", "window", "ragged", "formulas", "run-time", ...
  std::vector<int> lengths;  // of each sequence; keys, and queries where `queries` is 0
  int query_heads, kv_heads, head_dim;
  bool causal;
  int window = 0;  // keys to the left that a query still sees; 0: all
  DType dtype = DType::bf16;
  int queries = 0;        // of each sequence; 0: as many as keys
  std::string family{};   // the kernels that may compute it; empty: all
  std::string formula{};  // of bench/cuda/formulas.hpp, in place of causal and window

  bool ragged() const;
  int queries_of(int keys) const { return queries > 0 ? queries : keys; }
  /// 2 * (Dqk + Dv) FLOPs a visible pair and head; causal counts half of all pairs, as the field
  /// does. The set "formulas" counts whole tiles of 128 x 128.
  double flops() const;
};

/// How launches follow each other. `queued`: back to back behind a spinning kernel. `single`: one
/// behind a spinning kernel, the chip at rest between.
enum class Launching { queued, single };

struct ForwardFigure {
  ForwardPoint point;
  std::string kernel, refusal;  // one of them is empty
  Launching launching;
  double median_ms = 0, fastest_ms = 0, slowest_ms = 0;
  double predicted_ms = 0;                             // by the plan's cost model
  double plan_microseconds = 0, run_microseconds = 0;  // of the host, median
  double first_result_ms = 0;         // from the first plan() on, a formula's compilation included
  double clock_mhz = 0;               // of a multiprocessor, right behind the last launch
  std::optional<double> power_watts;  // of 0.2 s of launches; none unasked or without NVML
  double tflops() const { return median_ms > 0 ? point.flops() / median_ms / 1e9 : 0; }
};

struct ForwardReport {
  std::string device;  // "NVIDIA H200"
  std::vector<ForwardFigure> figures;
};

/// Of a point. The host queues them while a kernel spins for 5 ms: more would run as they come.
inline constexpr int most_launches = 100;

struct ForwardOptions {
  std::vector<std::string> sets{"grid"};
  std::vector<int> head_dims{64, 128, 256}, lengths{512, 1024, 2048, 4096, 8192, 16384};
  DType dtype = DType::bf16;
  int runs = 20;  // 1 to most_launches
  bool power = false;
};

std::vector<ForwardPoint> forward_points(const ForwardOptions& options);

/// What choosing a kernel is checked against: points of a few queries, each on every family, one
/// launch at a time.
bool of_choice(const ForwardPoint& point);

/// Lengths drawn log-uniformly from [16, 16384] until they sum to `tokens`, the last cut to fit;
/// the same for the same seed.
std::vector<int> log_uniform_lengths(int tokens, unsigned seed);

/// Measures; `progress` hears the part done and the point that is next, `measured` all figures so
/// far when there is one more. Throws Error(unsupported) where there is no device.
ForwardReport measure_forward(const ForwardOptions& options,
                              const std::function<void(double, const std::string&)>& progress,
                              const std::function<void(const ForwardReport&)>& measured);

/// Device, date, commit, command; then the columns of bench/results/*-forward.csv. Older
/// files end with run_us: readers go by the names.
std::string forward_csv_head(const std::string& device, const std::string& command);
std::string forward_csv_row(const ForwardFigure& figure);
std::string forward_csv(const ForwardReport& report, const std::string& command);
std::string forward_table(const std::vector<ForwardFigure>& figures);
/// Of the points of `choice`: where the family that the model prefers is not the fastest, how far
/// the model was off, and the time lost. Empty where there are none.
std::string choice_summary(const std::vector<ForwardFigure>& figures);

}  // namespace tilefold::bench
