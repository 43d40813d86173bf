// `tilefold bench cpu`: our time beside other libraries' on the same cores, shapes and minutes.
//
// For each shape the contenders take turns, ours first, and each one's figure is its median: what
// else the machine does meets all of them alike.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/fma_peak.hpp"
#include "bench/peers.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::bench {

/// `quick`: shapes up to 2048 tokens and two turns each, no long sections.
enum class Length { full, quick };

struct CpuBenchOptions {
  std::vector<DType> dtypes{DType::f32, DType::bf16};
  std::vector<std::string> peers{"torch", "onnxruntime", "materialised"};
  std::string python = "python3";
  int threads = 0;
  Length length = Length::full;
};

/// One shape. `peers` holds the seconds of those that ran it.
struct ShapeRow {
  Shape shape;
  std::string kernel;
  int turns = 0;
  double flops = 0, seconds = 0;
  double fma_fraction = 0;  // of the f32 multiply-add peak, whatever the dtype
  std::map<std::string, double> peers;

  double gflops() const { return flops / seconds / 1e9; }
  /// Name of the fastest peer; empty where none ran.
  std::string fastest_peer() const;
  /// Its seconds over ours: above 1 we are faster.
  double ratio() const;
};

/// A figure beside the target that the project sets for it.
struct Check {
  std::string name, unit;
  double value = 0, target = 0;  // the target is an upper bound
  std::string detail;
  bool met() const { return value <= target; }
};

struct CpuBenchReport {
  Peaks peaks;
  int threads = 1;
  std::map<std::string, std::string> peers, absent_peers;
  std::vector<ShapeRow> rows;
  std::vector<Check> checks;
  double seconds = 0;
};

/// Called with the part done and a line about what comes next.
using BenchProgress = std::function<void(double part, const std::string& next)>;

CpuBenchReport bench_cpu(const CpuBenchOptions& options, const BenchProgress& progress = {});

/// Geometric mean of f over the rows where it is positive; 0 where there are none.
double geometric_mean(const std::vector<ShapeRow>& rows,
                      const std::function<double(const ShapeRow&)>& f);

}  // namespace tilefold::bench
