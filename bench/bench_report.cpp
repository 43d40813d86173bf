#include "bench/bench_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/machine.hpp"

namespace tilefold::bench {

namespace {

std::string geometric_means(const CpuBenchReport& report) {
  std::string text;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    std::vector<ShapeRow> rows;
    for (const ShapeRow& row : report.rows)
      if (row.shape.dtype == dtype) rows.push_back(row);
    if (rows.empty()) continue;
    text +=
        fmt::format("geometric mean {:4}  {:7.1f} GFLOPS  {:5.1f} % of the multiply-add peak",
                    name(dtype), geometric_mean(rows, [](const ShapeRow& r) { return r.gflops(); }),
                    100 * geometric_mean(rows, [](const ShapeRow& r) { return r.fma_fraction; }));
    for (const auto& [peer, version] : report.peers) {
      const double ratio = geometric_mean(rows, [&peer = peer](const ShapeRow& r) {
        const auto found = r.peers.find(peer);
        return found == r.peers.end() ? 0 : found->second / r.seconds;
      });
      if (ratio > 0) text += fmt::format("  {:.2f} x {}", ratio, peer);
    }
    text += fmt::format("  {:.2f} x the fastest of each row\n",
                        geometric_mean(rows, [](const ShapeRow& r) { return r.ratio(); }));
  }
  return text;
}

}  // namespace

std::string to_table(const CpuBenchReport& report) {
  std::string text = fmt::format("{}, {} threads; f32 multiply-add peak {:.1f} GFLOPS ({} vectors)",
                                 this_machine().cpu, report.threads, report.peaks.f32_fma / 1e9,
                                 report.peaks.vectors);
  if (report.peaks.bf16_dot > 0)
    text += fmt::format(", bf16 dot products {:.1f} GFLOPS", report.peaks.bf16_dot / 1e9);
  text += "\npeers: ";
  for (const auto& [peer, version] : report.peers) text += fmt::format("{} ({})  ", peer, version);
  for (const auto& [peer, reason] : report.absent_peers)
    text += fmt::format("\n  {} is not here: {}", peer, reason);
  text +=
      fmt::format("\n\n{:5} {:>6} {:>5} {:>4} {:6}  {:22} {:>10} {:>8} {:>6}  {:14} {:>10} {:>7}\n",
                  "dtype", "tokens", "heads", "dim", "mask", "kernel", "ms", "GFLOPS", "% FMA",
                  "fastest peer", "ms", "times");
  for (const ShapeRow& row : report.rows) {
    const std::string peer = row.fastest_peer();
    text += fmt::format("{:5} {:6} {:5} {:4} {:6}  {:22} {:10.2f} {:8.1f} {:6.1f}",
                        name(row.shape.dtype), row.shape.tokens, row.shape.heads,
                        row.shape.head_dim, row.shape.causal ? "causal" : "full", row.kernel,
                        row.seconds * 1e3, row.gflops(), 100 * row.fma_fraction);
    if (!peer.empty())
      text += fmt::format("  {:14} {:10.2f} {:7.2f}", peer, row.peers.at(peer) * 1e3, row.ratio());
    text += "\n";
  }
  text += "\n" + geometric_means(report) + "\n";
  for (const Check& check : report.checks)
    text += fmt::format("{:6} {}: {:.3g}{} (at most {:g}; {})\n", check.met() ? "met" : "MISSED",
                        check.name, check.value, check.unit.empty() ? "" : " " + check.unit,
                        check.target, check.detail);
  text += fmt::format("took {:.0f} s\n", report.seconds);
  return text;
}

std::string to_csv(const CpuBenchReport& report, const std::string& command) {
  std::string text = fmt::format(
      "# command: {}\n# cpu: {}, {} threads, f32 multiply-add peak {:.1f} GFLOPS\n# date: {}\n"
      "# commit: {} ({})\n",
      command, this_machine().cpu, report.threads, report.peaks.f32_fma / 1e9, today(), commit(),
      compiler());
  for (const auto& [peer, version] : report.peers)
    text += fmt::format("# peer: {} {}\n", peer, version);
  for (const Check& c : report.checks)
    text += fmt::format("# check: {}: {:.4g} {} (at most {:g}; {})\n", c.name, c.value, c.unit,
                        c.target, c.detail);
  text +=
      "contender,dtype,batch,heads,tokens,head_dim,causal,turns,ms,gflops,percent_of_fma_peak\n";
  for (const ShapeRow& row : report.rows) {
    const auto line = [&](const std::string& contender, double seconds) {
      const Shape& s = row.shape;
      text += fmt::format("{},{},{},{},{},{},{},{},{:.4f},{:.2f},{:.2f}\n", contender,
                          name(s.dtype), s.batch, s.heads, s.tokens, s.head_dim, int(s.causal),
                          row.turns, seconds * 1e3, row.flops / seconds / 1e9,
                          100 * row.flops / seconds / report.peaks.f32_fma);
    };
    line("tilefold", row.seconds);
    for (const auto& [peer, seconds] : row.peers) line(peer, seconds);
  }
  return text;
}

std::string to_json(const CpuBenchReport& report, const std::string& command) {
  nlohmann::ordered_json all{{"command", command},
                             {"cpu", this_machine().cpu},
                             {"threads", report.threads},
                             {"date", today()},
                             {"commit", commit()},
                             {"f32_fma_peak_gflops", report.peaks.f32_fma / 1e9},
                             {"bf16_dot_peak_gflops", report.peaks.bf16_dot / 1e9},
                             {"peers", report.peers},
                             {"absent_peers", report.absent_peers}};
  all["rows"] = nlohmann::ordered_json::array();
  for (const ShapeRow& row : report.rows)
    all["rows"].push_back({{"dtype", name(row.shape.dtype)},
                           {"heads", row.shape.heads},
                           {"tokens", row.shape.tokens},
                           {"head_dim", row.shape.head_dim},
                           {"causal", row.shape.causal},
                           {"kernel", row.kernel},
                           {"turns", row.turns},
                           {"seconds", row.seconds},
                           {"gflops", row.gflops()},
                           {"fraction_of_fma_peak", row.fma_fraction},
                           {"peer_seconds", row.peers},
                           {"fastest_peer", row.fastest_peer()},
                           {"times_fastest_peer", row.ratio()}});
  all["checks"] = nlohmann::ordered_json::array();
  for (const Check& c : report.checks)
    all["checks"].push_back({{"name", c.name},
                             {"value", c.value},
                             {"unit", c.unit},
                             {"at_most", c.target},
                             {"met", c.met()},
                             {"detail", c.detail}});
  all["seconds"] = report.seconds;
  return all.dump(2);
}

}  // namespace tilefold::bench
