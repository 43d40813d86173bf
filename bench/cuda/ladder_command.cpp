// Options of `ladder`, and what it prints and writes.
#include "bench/cuda/ladder_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>

#include "bench/cuda/ladder_bench.hpp"
#include "bench/cuda/ladder_profile.hpp"
#include "bench/text_file.hpp"
#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

using cuda::ladder::Visible;

struct Arguments {
  LadderOptions options;
  std::string csv, svg, counters;
  bool causal = false, sweep = false, with_profile = false, once = false;
};

[[noreturn]] void refuse_file(const std::string& path) {
  throw Error(ErrorCode::file_io, path + " cannot be written: " + std::strerror(errno));
}

/// Rows in a file as they come: what has been measured stays, whatever ends the program.
class CsvFile {
 public:
  CsvFile(const std::string& path, const std::string& head) : path_(path) {
    if (path.empty()) return;
    file_.open(path);
    write(head);
  }
  void write(const std::string& text) {
    if (path_.empty()) return;
    file_ << text << std::flush;
    if (!file_) refuse_file(path_);
  }

 private:
  std::string path_;
  std::ofstream file_;
};

LadderOptions chosen(const Arguments& arguments) {
  LadderOptions options = arguments.options;
  if (arguments.causal) options.masks = {Visible::causal};
  if (arguments.sweep) {
    options.sequences = {512, 1024, 2048, 4096, 8192, 16384};
    options.head_dims = {64, 128};
    options.masks = {Visible::all_keys, Visible::causal};
    options.choice = RungChoice::story;
  }
  return options;
}

/// This program again, asked to launch each of these rungs once, on the first shape.
std::string profiled_command(const LadderOptions& options, const std::vector<std::string>& rungs,
                             bool inside_tool) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string command = fmt::format("'{}'{} --once --seq {} --head-dim {} --tokens {} --hidden {}",
                                    self, inside_tool ? " ladder" : "", options.sequences.at(0),
                                    options.head_dims.at(0), options.tokens, options.hidden);
  if (options.masks.at(0) == Visible::causal) command += " --causal";
  for (const std::string& rung : rungs) command += " --rung " + rung;
  return command;
}

void run_profile(const Arguments& arguments, LadderOptions options, const char* command_line,
                 bool inside_tool, const MakeProgress& make_progress) {
  if (arguments.sweep) options.sequences = {4096};
  const std::vector<std::string> rungs = rung_names(options);
  const auto counters = profile(profiled_command(options, rungs, inside_tool), rungs,
                                make_progress ? make_progress() : ProfileProgress());
  fmt::print("{}", to_table(counters));
  if (arguments.counters.empty()) return;
  const char* const mask = options.masks.at(0) == Visible::causal ? ", causal" : "";
  write_text(arguments.counters,
             to_csv(counters, fmt::format("{}; {}; {} tokens, head dimension {}{}", command_line,
                                          ladder_device(), options.sequences.at(0),
                                          options.head_dims.at(0), mask)));
}

void run(const Arguments& arguments, const char* command_line, bool inside_tool,
         const MakeProgress& make_progress) {
  const LadderOptions options = chosen(arguments);
  if (arguments.once) return launch_each_rung(options);
  for (const std::string& path : {arguments.csv, arguments.svg, arguments.counters})
    if (!path.empty()) require_writable(path);
  CsvFile csv(arguments.csv, arguments.csv.empty() ? "" : csv_head(ladder_device(), command_line));
  LadderReport report;
  {
    const LadderProgress progress = make_progress ? make_progress() : LadderProgress();
    report =
        measure_ladder(options, progress, [&](const LadderRow& row) { csv.write(csv_line(row)); });
  }
  fmt::print("{}", to_table(report));
  std::fflush(stdout);
  if (!arguments.svg.empty()) write_text(arguments.svg, to_svg(report));
  if (arguments.with_profile)
    run_profile(arguments, options, command_line, inside_tool, make_progress);
}

/// CLI11's own range lets nan pass.
CLI::Validator seconds(double least, double most) {
  const auto check = [=](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return "";
    return fmt::format("'{}' is not a number from {:g} to {:g}", text, least, most);
  };
  return CLI::Validator(check, "");
}

/// A name that no rung has is told without a device; a build without CUDA knows no rungs.
void refuse_unknown_rungs(const LadderOptions& options) {
  try {
    rung_names(options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument)
      throw CLI::ValidationError("--rung", error.what());
    throw;
  }
}

/// An option that would change nothing, or a shape that is none, is a mistake of the caller's.
void refuse_nonsense(const CLI::App& command, const Arguments& arguments) {
  const auto refuse = [&](const char* with, std::initializer_list<const char*> options,
                          const char* why) {
    for (const char* option : options)
      if (command.count(option) != 0)
        throw CLI::ValidationError(option, fmt::format("does not go with {}, which {}", with, why));
  };
  if (arguments.sweep)
    refuse("--sweep", {"--seq", "--head-dim", "--causal"}, "sets lengths, dimensions and masks");
  if (arguments.once)
    refuse("--once", {"--csv", "--svg", "--profile", "--runs", "--sweep", "--time-limit"},
           "measures nothing");
  if (!arguments.with_profile && command.count("--counters") != 0)
    throw CLI::ValidationError("--counters", "needs --profile, which reads them");
  for (const int head_dim : chosen(arguments).head_dims)
    if (arguments.options.hidden % head_dim != 0)
      throw CLI::ValidationError("--hidden",
                                 fmt::format("{} is not a multiple of the head dimension {}",
                                             arguments.options.hidden, head_dim));
}

}  // namespace

void make_ladder_command(CLI::App& command, const char* (*command_line)(),
                         const MakeProgress& make_progress) {
  const auto arguments = std::make_shared<Arguments>();
  LadderOptions& options = arguments->options;
  command.add_option("--seq", options.sequences, "Lengths, one or more: 512,4096")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--head-dim", options.head_dims, "64, 128 or both: 64,128")
      ->delimiter(',')
      ->check(CLI::IsMember({64, 128}));
  command.add_flag("--causal", arguments->causal, "Query i sees keys up to i");
  command.add_flag("--sweep", arguments->sweep,
                   "Lengths 512 to 16384, both head dimensions, causal and not");
  command.add_option("--rung", options.rungs, "Only these, by name: v1,v2")->delimiter(',');
  command.add_option("--tokens", options.tokens, "Batch times length; default 16384")
      ->check(CLI::Range(1, 1 << 28));
  command.add_option("--hidden", options.hidden, "Heads times head dimension; default 2048")
      ->check(CLI::Range(64, 1 << 16));
  command
      .add_option(
          "--runs", options.runs,
          "Timed launches at most; slow rungs get fewer; the median counts; default and most 20")
      ->check(CLI::Range(1, most_runs));
  command
      .add_option("--time-limit", options.time_limit_s,
                  "Seconds after which no further row is begun; default none")
      ->check(seconds(1, 1e6));
  command.add_option("--csv", arguments->csv,
                     "Also write each row to this file, as it is measured");
  command.add_option("--svg", arguments->svg, "Also draw TFLOPS to this file");
  command.add_flag("--profile", arguments->with_profile,
                   "Hardware counters through ncu, of the first shape; of a sweep, at 4096 tokens");
  command.add_option("--counters", arguments->counters,
                     "With --profile, also write them to this CSV");
  command.add_flag("--once", arguments->once,
                   "Launch each rung once, for a profiler; time nothing");
  const bool inside_tool = command.get_parent() != nullptr;
  command.callback([arguments, command_line, inside_tool, make_progress, &command] {
    refuse_nonsense(command, *arguments);
    refuse_unknown_rungs(arguments->options);
    run(*arguments, command_line(), inside_tool, make_progress);
  });
}

}  // namespace tilefold::bench
