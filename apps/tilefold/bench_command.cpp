// `tilefold bench`: speed, memory and skipped work on the CPU, the forward on a GPU, and charts of
// its results.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "bench/bench_report.hpp"
#include "bench/cuda/forward_figures.hpp"
#include "bench/forward_grid.hpp"
#include "bench/text_file.hpp"
#include "command.hpp"
#include "option_checks.hpp"
#include "progress.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cli {

namespace {

struct Arguments {
  std::string csv, svg, python;
  std::vector<std::string> peers{"torch", "onnxruntime", "materialised"}, dtypes{"f32", "bf16"};
  int threads = 0;
  bool quick = false, json = false;
};

// Files that cannot be written are told before minutes of measuring, and files that are there stay
// until there is something to put in their place.
void require_writable(const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    if (!path.empty()) bench::require_writable(path);
}

void write_text(const std::string& path, const std::string& text) {
  if (!path.empty()) bench::write_text(path, text);
}

std::string python_of(const Arguments& a) {
  if (!a.python.empty()) return a.python;
  const char* variable = std::getenv("TILEFOLD_PYTHON");
  return variable != nullptr && *variable != '\0' ? variable : "python3";
}

void bench_cpu(const Arguments& a) {
  require_writable({a.csv, a.svg});
  bench::CpuBenchOptions options;
  options.dtypes.clear();
  for (const std::string& text : a.dtypes) {
    if (text == "f32") options.dtypes.push_back(DType::f32);
    if (text == "bf16") options.dtypes.push_back(DType::bf16);
    if (text == "f16") options.dtypes.push_back(DType::f16);
  }
  options.peers = a.peers;
  std::erase(options.peers, "none");
  options.python = python_of(a);
  options.threads = a.threads;
  if (a.quick) options.length = bench::Length::quick;
  bench::CpuBenchReport report;
  {
    Progress progress("bench cpu");
    report = bench::bench_cpu(
        options, [&](double part, const std::string& next) { progress.update(part, next); });
  }
  fmt::print("{}\n", a.json ? bench::to_json(report, command_line()) : bench::to_table(report));
  write_text(a.csv, bench::to_csv(report, command_line()));
  write_text(a.svg, bench::to_svg(report));
}

struct ForwardArguments {
  bench::ForwardOptions options;
  std::string csv, svg, dtype = "bf16";
};

// A chart shows the grid; without it there is none to draw.
void refuse_idle_chart(const ForwardArguments& a) {
  const auto& sets = a.options.sets;
  if (!a.svg.empty() && std::find(sets.begin(), sets.end(), "grid") == sets.end())
    throw UsageError("--svg draws the grid: it needs grid among --set");
  const auto& lengths = a.options.lengths;
  if (!a.svg.empty() && *std::min_element(lengths.begin(), lengths.end()) > bench::grid_tokens)
    throw UsageError(
        fmt::format("--svg draws sequences up to {} tokens: --seq holds none", bench::grid_tokens));
}

void refuse_uneven_heads(const bench::ForwardOptions& options) {
  const bool grid =
      std::find(options.sets.begin(), options.sets.end(), "grid") != options.sets.end();
  for (int dim : options.head_dims)
    if (grid && bench::grid_hidden % dim != 0)
      throw UsageError(fmt::format("--head-dim {}: the grid's {} columns are no whole heads of it",
                                   dim, bench::grid_hidden));
}

void bench_forward(const ForwardArguments& a) {
  refuse_idle_chart(a);
  refuse_uneven_heads(a.options);
  bench::ForwardOptions options = a.options;
  options.dtype = a.dtype == "f16" ? DType::f16 : DType::bf16;
  require_writable({a.csv, a.svg});
  bench::ForwardReport report;
  {
    Progress progress("bench forward");
    report = bench::measure_forward(
        options, [&](double part, const std::string& next) { progress.update(part, next); },
        // Point by point: a run that is cut off leaves what it measured.
        [&](const bench::ForwardReport& so_far) {
          write_text(a.csv, bench::forward_csv(so_far, command_line()));
        });
  }
  fmt::print("{}{}", bench::forward_table(report.figures), bench::choice_summary(report.figures));
  if (a.svg.empty()) return;
  bench::GridResults grid;
  bench::add_results(grid, bench::forward_csv(report, command_line()), "bench forward");
  bench::write_text(a.svg, bench::to_svg(grid));
}

struct ChartArguments {
  std::vector<std::string> results;
  std::string svg;
};

void bench_chart(const ChartArguments& a) {
  bench::GridResults grid;
  for (const std::string& file : a.results) bench::add_results(grid, bench::read_text(file), file);
  bench::write_text(a.svg, bench::to_svg(grid));
}

void add_bench_chart(CLI::App& command) {
  CLI::App* chart =
      command.add_subcommand("chart", "Draws the grid of bench forward from its results");
  const auto a = std::make_shared<ChartArguments>();
  chart->add_option("results", a->results, "CSV of bench forward and of bench/peers/torch_sdpa.py")
      ->required();
  chart->add_option("--svg", a->svg, "The chart")->required();
  chart->callback([a] { bench_chart(*a); });
}

void add_bench_forward(CLI::App& command) {
  CLI::App* forward = command.add_subcommand("forward", "The forward on a GPU");
  const auto a = std::make_shared<ForwardArguments>();
  bench::ForwardOptions& o = a->options;
  forward->add_option("--csv", a->csv, "Writes every figure, with the command");
  forward->add_option("--svg", a->svg, "Draws the grid");
  forward->add_option("--set", o.sets, "grid, gqa, window, ragged, formulas, run-time, choice")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"grid", "gqa", "window", "ragged", "formulas", "run-time", "choice"}));
  forward->add_option("--head-dim", o.head_dims, "Of grid, whose hidden size is 2048, and choice")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"32", "64", "128", "192", "256"}));
  forward->add_option("--seq", o.lengths, "Of the grid; 16384 tokens in all")
      ->delimiter(',')
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20));
  forward->add_option("--dtype", a->dtype, "bf16 or f16")
      ->capture_default_str()
      ->check(CLI::IsMember({"bf16", "f16"}));
  forward->add_flag("--power", o.power, "Measures power too: 0.2 s more of launches a point");
  forward->add_option("--runs", o.runs, "Launches of each point")
      ->capture_default_str()
      ->check(whole_number(1, bench::most_launches));
  forward->callback([a] { bench_forward(*a); });
}

}  // namespace

void add_bench(CLI::App& tool) {
  CLI::App* command = tool.add_subcommand("bench", "Measures speed and memory on this machine");
  command->require_subcommand(1);
  CLI::App* cpu = command->add_subcommand("cpu", "The CPU backend beside other CPU libraries");
  const auto a = std::make_shared<Arguments>();
  cpu->add_option("--csv", a->csv, "Writes every figure, with command, CPU, date and commit");
  cpu->add_option("--svg", a->svg, "Writes a chart");
  cpu->add_option("--peers", a->peers, "torch, onnxruntime, onnxruntime-matmul, materialised, none")
      ->delimiter(',')
      ->capture_default_str()
      ->check(
          CLI::IsMember({"torch", "onnxruntime", "onnxruntime-matmul", "materialised", "none"}));
  cpu->add_option("--dtype", a->dtypes, "f32, bf16, f16")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  cpu->add_option("--python", a->python,
                  "The Python that has the peers; $TILEFOLD_PYTHON or python3 unless given");
  cpu->add_option("--threads", a->threads, "Of every contender; 0 takes all cores")
      ->check(whole_number(0, most_threads));
  cpu->add_flag("--quick", a->quick, "Up to 2048 tokens and no long sections: about a minute");
  cpu->add_flag("--json", a->json, "Prints one JSON object");
  cpu->callback([a] { bench_cpu(*a); });
  add_bench_forward(*command);
  add_bench_chart(*command);
}

}  // namespace tilefold::cli
