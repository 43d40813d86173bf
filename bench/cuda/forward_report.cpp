// Figures of `tilefold bench forward` as CSV and as a table.
#include <fmt/format.h>

#include "bench/cuda/forward_figures.hpp"
#include "bench/machine.hpp"

namespace tilefold::bench {

namespace {

// Nothing where no meter was read: 0 would be a reading.
std::string watts(const ForwardFigure& figure) {
  return figure.power_watts ? fmt::format("{:.0f}", *figure.power_watts) : "";
}

/// "4096", or queries x keys where they differ.
std::string length_text(const ForwardPoint& p) {
  if (p.ragged()) return "ragged";
  return p.queries > 0 ? fmt::format("{}x{}", p.queries, p.lengths[0])
                       : std::to_string(p.lengths[0]);
}

}  // namespace

std::string forward_csv_head(const std::string& device, const std::string& command) {
  return fmt::format("# {}, {}, commit {}\n# {}\n", device, today(), commit(), command) +
         "peer,mode,op,dtype,batch,heads_q,heads_kv,hdim,seqlen_q,seqlen_k,causal,window,ms,"
         "fastest_ms,slowest_ms,rate,unit,kernel,plan_us,run_us,clock_mhz,power_w,"
         "predicted_ms,first_result_ms\n";
}

std::string forward_csv_row(const ForwardFigure& f) {
  const ForwardPoint& p = f.point;
  if (!f.refusal.empty())
    return fmt::format("# D {} length {} {}: {}\n", p.head_dim, p.lengths[0], p.family, f.refusal);
  const int length = p.ragged() ? 0 : p.lengths[0];
  return fmt::format(
      "tilefold,{},{},{},{},{},{},{},{},{},{},{},{:.4f},{:.4f},{:.4f},{:.1f},TFLOPS,{},{:.1f},"
      "{:.1f},{:.0f},{},{:.4f},{:.1f}\n",
      f.launching == Launching::queued ? "queued" : "single",
      p.ragged()          ? "forward_ragged"
      : p.formula.empty() ? std::string("forward")
                          : "forward " + p.formula,
      tilefold::name(p.dtype), p.lengths.size(), p.query_heads, p.kv_heads, p.head_dim,
      p.ragged() ? 0 : p.queries_of(length), length, int(p.causal), p.window, f.median_ms,
      f.fastest_ms, f.slowest_ms, f.tflops(), f.kernel, f.plan_microseconds, f.run_microseconds,
      f.clock_mhz, watts(f), f.predicted_ms, f.first_result_ms);
}

std::string forward_csv(const ForwardReport& report, const std::string& command) {
  std::string text = forward_csv_head(report.device, command);
  for (const ForwardFigure& figure : report.figures) text += forward_csv_row(figure);
  return text;
}

std::string forward_table(const std::vector<ForwardFigure>& figures) {
  std::string text =
      fmt::format("{:>4} {:>6} {:>6} {:>6} {:>9} {:>9} {:>9} {:>8} {:>5} {:>5}  {}\n", "D", "heads",
                  "batch", "mask", "length", "ms", "model ms", "TFLOPS", "MHz", "W", "kernel");
  for (const ForwardFigure& f : figures) {
    const ForwardPoint& p = f.point;
    text +=
        fmt::format("{:>4} {:>6} {:>6} {:>6} {:>9} {:>9.4f} {:>9.4f} {:>8.1f} {:>5.0f} {:>5}  {}\n",
                    p.head_dim, fmt::format("{}/{}", p.query_heads, p.kv_heads), p.lengths.size(),
                    !p.formula.empty() ? p.formula
                    : p.window > 0     ? "win"
                    : p.causal         ? "causal"
                                       : "full",
                    length_text(p), f.median_ms, f.predicted_ms, f.tflops(), f.clock_mhz, watts(f),
                    f.refusal.empty() ? f.kernel : f.refusal);
  }
  return text;
}

}  // namespace tilefold::bench
