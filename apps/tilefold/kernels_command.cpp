// `tilefold kernels`: the kernels that this machine can run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "front/kernels.hpp"

namespace tilefold::cli {

namespace {

std::string tile_text(const planner::TileShape& tile) {
  return fmt::format("{} x {} / {}", tile.tile_queries, tile.tile_keys, tile.block_queries);
}

const char* backend_name(const planner::Candidate& kernel) {
  return kernel.backend == Backend::cuda ? "cuda" : "cpu";
}

// What the cost model holds of a kernel; null where that is nothing, or depends on the problem.
nlohmann::ordered_json cost_json(const planner::KernelCost& cost) {
  if (cost.tile_cycles == 0) return nullptr;
  return {{"item_cycles", cost.item_cycles}, {"tile_cycles", cost.tile_cycles},
          {"cut_cycles", cost.cut_cycles},   {"alone", cost.alone},
          {"blocks", cost.blocks},           {"measured", cost.measured}};
}

void list_kernels(Output output) {
  if (output == Output::json) {
    auto array = nlohmann::ordered_json::array();
    for (const planner::Candidate& k : all_kernels())
      array.push_back({{"name", k.name},
                       {"backend", backend_name(k)},
                       {"compute", name(k.compute)},
                       {"tile_queries", k.tile.tile_queries},
                       {"tile_keys", k.tile.tile_keys},
                       {"block_queries", k.tile.block_queries},
                       {"instructions", k.instructions},
                       {"flops_per_cycle", k.flops_per_cycle},
                       {"exponentials_per_cycle", k.exponentials_per_cycle},
                       {"cache_bytes_per_cycle", k.cache_bytes_per_cycle},
                       {"cost", cost_json(k.cost)}});
    fmt::print("{}\n", array.dump(2));
    return;
  }
  fmt::print("{:36} {:8} {:8} {:16} {:>11} {:>10} {:>11}  {}\n", "kernel", "backend", "compute",
             "tile q x k / blk", "FLOPs/cycle", "exps/cycle", "bytes/cycle", "instructions");
  for (const planner::Candidate& k : all_kernels())
    fmt::print("{:36} {:8} {:8} {:16} {:11g} {:10g} {:11g}  {}\n", k.name, backend_name(k),
               name(k.compute), tile_text(k.tile), k.flops_per_cycle, k.exponentials_per_cycle,
               k.cache_bytes_per_cycle, k.instructions);
}

}  // namespace

void add_kernels(CLI::App& tool) {
  CLI::App* command =
      tool.add_subcommand("kernels", "The kernels of this build, each backend's fastest first");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Prints a JSON array");
  command->callback([json] { list_kernels(*json ? Output::json : Output::text); });
}

}  // namespace tilefold::cli
