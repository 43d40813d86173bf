// `tilefold bench cpu` and `tilefold bench forward`: speed, memory and skipped work, beside other
// libraries.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>

#include "bench/bench_report.hpp"
#include "bench/cuda/forward_figures.hpp"
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

void write_text(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::binary);
  if (!(file << text << std::flush))
    throw Error(ErrorCode::file_io, fmt::format("{}: it cannot be written", path));
}

std::string python_of(const Arguments& a) {
  if (!a.python.empty()) return a.python;
  const char* variable = std::getenv("TILEFOLD_PYTHON");
  return variable != nullptr && *variable != '\0' ? variable : "python3";
}

void bench_cpu(const Arguments& a) {
  // Files that cannot be written are told before minutes of measuring.
  for (const std::string& path : {a.csv, a.svg}) write_text(path, "");
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
  std::string csv, dtype = "bf16";
};

void bench_forward(const ForwardArguments& a) {
  bench::ForwardOptions options = a.options;
  options.dtype = a.dtype == "f16" ? DType::f16 : DType::bf16;
  write_text(a.csv, "");
  std::vector<bench::ForwardFigure> figures;
  {
    Progress progress("bench forward");
    figures = bench::measure_forward(
        options, [&](double part, const std::string& next) { progress.update(part, next); });
  }
  fmt::print("{}", bench::forward_table(figures));
  if (a.csv.empty()) return;
  std::string text = "# " + command_line() + "\n" + bench::forward_csv_header();
  for (const bench::ForwardFigure& figure : figures) text += bench::forward_csv_row(figure);
  write_text(a.csv, text);
}

void add_bench_forward(CLI::App& command) {
  CLI::App* forward = command.add_subcommand("forward", "The forward on a GPU");
  const auto a = std::make_shared<ForwardArguments>();
  bench::ForwardOptions& o = a->options;
  forward->add_option("--csv", a->csv, "Writes every figure, with the command");
  forward->add_option("--set", o.sets, "grid, gqa, window, ragged")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"grid", "gqa", "window", "ragged"}));
  forward->add_option("--head-dim", o.head_dims, "Of the grid; hidden size is 2048")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"32", "64", "128", "256"}));
  forward->add_option("--seq", o.lengths, "Of the grid; 16384 tokens in all")
      ->delimiter(',')
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20));
  forward->add_option("--dtype", a->dtype, "bf16 or f16")
      ->capture_default_str()
      ->check(CLI::IsMember({"bf16", "f16"}));
  forward->add_option("--runs", o.runs, "Launches of each point")
      ->capture_default_str()
      ->check(whole_number(1, 1000));
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
}

}  // namespace tilefold::cli
