// tilefold ladder: every rung from naive attention to tensor cores, measured side by side.
#include <CLI/CLI.hpp>
#include <memory>

#include "bench/cuda/ladder_command.hpp"
#include "command.hpp"
#include "progress.hpp"

namespace tilefold::cli {

void add_ladder(CLI::App& tool) {
  CLI::App* command = tool.add_subcommand(
      "ladder", "Measure the ladder of attention kernels on a GPU, naive to tensor cores");
  bench::make_ladder_command(
      *command, [] { return command_line().c_str(); },
      [] {
        const auto bar = std::make_shared<Progress>("ladder");
        return [bar](double part, const std::string& note) { bar->update(part, note); };
      });
}

}  // namespace tilefold::cli
