// A benchmark's report as a table, as CSV, as JSON and as a chart.
#pragma once

#include <string>

#include "bench/cpu_bench.hpp"

namespace tilefold::bench {

/// For a terminal: one line a shape, geometric means, targets.
std::string to_table(const CpuBenchReport& report);
/// Comment lines with command, CPU, date and commit; then one line a shape and contender.
std::string to_csv(const CpuBenchReport& report, const std::string& command);
std::string to_json(const CpuBenchReport& report, const std::string& command);
/// GFLOPS as bars, one panel a dtype, head dimension and mask.
std::string to_svg(const CpuBenchReport& report);

}  // namespace tilefold::bench
