// Checks and times the sm80 forward on one GPU: the registry's kernels and candidates for it,
// launched without the planner.
//
//   forward_bench check [NAME..]            against float64 on the host; outputs poisoned
//   forward_bench time [NAME..] [--csv FILE] [--seq N] [--causal 0|1] [--together N]
//   forward_bench list [NAME..]
//
// NAME picks kernels whose name contains it. Exit codes: 0, 1 a kernel is wrong, 2 bad usage, 3 the
// device failed.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "bench/cuda/device.hpp"
#include "bench/cuda/forward/check.hpp"
#include "bench/cuda/forward/timing.hpp"
#include "tilefold/error.hpp"

namespace {

using tilefold::bench::forward::Kernel;

struct Arguments {
  std::vector<std::string> names;
  std::string csv;
  tilefold::bench::forward::TimeOptions time;
};

std::vector<Kernel> chosen(const std::vector<std::string>& names) {
  std::vector<Kernel> kernels;
  for (const Kernel& kernel : tilefold::bench::forward::kernels())
    if (names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return kernel.name.find(name) != std::string::npos;
        }))
      kernels.push_back(kernel);
  if (kernels.empty())
    throw tilefold::Error(tilefold::ErrorCode::invalid_argument,
                          "no kernel has such a name: forward_bench list prints them");
  return kernels;
}

int check(const std::vector<Kernel>& kernels) {
  bool right = true;
  for (const Kernel& kernel : kernels) right &= tilefold::bench::forward::check(kernel);
  return right ? 0 : 1;
}

void time(const std::vector<Kernel>& kernels, Arguments arguments) {
  tilefold::bench::require_device("forward_bench time");  // before a file is emptied for its rows
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> csv(nullptr, std::fclose);
  if (!arguments.csv.empty()) {
    csv.reset(std::fopen(arguments.csv.c_str(), "w"));
    if (csv == nullptr)
      throw tilefold::Error(tilefold::ErrorCode::file_io, "cannot write " + arguments.csv);
    std::fprintf(csv.get(), "kernel,batch,heads,head_dim,length,causal,ms,tflops\n");
  }
  arguments.time.csv = csv.get();
  tilefold::bench::forward::print_time_heading();
  for (const Kernel& kernel : kernels)
    tilefold::bench::forward::time_kernel(kernel, arguments.time);
}

void list(const std::vector<Kernel>& kernels) {
  for (const Kernel& kernel : kernels)
    std::printf("%-40s %4d threads %6d bytes\n", kernel.name.c_str(), kernel.config.threads(),
                kernel.config.shared_bytes());
}

}  // namespace

int main(int count, char** words) {
  CLI::App program{"Checks and times the sm80 forward kernels and candidates for their registry"};
  program.require_subcommand(1);
  Arguments arguments;
  const auto add = [&](const char* name, const char* what) {
    CLI::App* command = program.add_subcommand(name, what);
    command->add_option("NAME", arguments.names, "Kernels whose name contains it; default all");
    return command;
  };
  const CLI::App* checks = add("check", "Against float64 on the host");
  CLI::App* times = add("time", "TFLOPS at 16384 tokens, hidden size 2048");
  times->add_option("--csv", arguments.csv, "A file for the figures");
  times->add_option("--seq", arguments.time.sequence, "This sequence length only");
  times->add_option("--causal", arguments.time.causal, "1: causal only, 0: dense only");
  times->add_option("--together", arguments.time.together,
                    "Heads that causal blocks take in turn; 1: head after head, as dense ones do");
  const CLI::App* lists = add("list", "Names, threads, dynamic shared memory");
  int status = 0;
  try {
    program.parse(count, words);
    const std::vector<Kernel> kernels = chosen(arguments.names);
    if (checks->parsed()) status = check(kernels);
    if (times->parsed()) time(kernels, arguments);
    if (lists->parsed()) list(kernels);
  } catch (const CLI::Success& asked) {
    return program.exit(asked);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "forward_bench: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "forward_bench: %s\n", error.what());
    return 3;
  }
  return status;
}
