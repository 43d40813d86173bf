// `tilefold info`: what was built, where it runs, and what it finds there.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/machine.hpp"
#include "command.hpp"
#include "cpu/backend.hpp"
#include "cpu/highway_kernel.hpp"
#include "cuda/backend.hpp"
#include "cuda/formula_compiler.hpp"
#include "tilefold/attention.hpp"

namespace tilefold::cli {

namespace {

struct Place {
  std::string path, what;
};

// A toolkit is a directory with bin/nvcc; the driver is libcuda.so.1.
std::vector<Place> cuda_places() {
  std::vector<std::string> roots;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(variable)) roots.emplace_back(root);
  if (std::find(roots.begin(), roots.end(), "/usr/local/cuda") == roots.end())
    roots.emplace_back("/usr/local/cuda");
  std::vector<Place> places;
  std::error_code ignored;
  for (const std::string& root : roots)
    places.push_back({root, std::filesystem::exists(root + "/bin/nvcc", ignored) ? "toolkit found"
                                                                                 : "no toolkit"});
  const std::string driver = "/dev/nvidiactl";
  places.push_back(
      {driver, std::filesystem::exists(driver, ignored) ? "driver found" : "no driver"});
  return places;
}

// What the portable kernels run on: as the float32 one in the registry says.
std::string highway_in_use() {
  for (const planner::Candidate& kernel : cpu::kernels())
    if (kernel.compute == DType::f32) return kernel.instructions;
  return "none";
}

void print_info(Output output) {
  const bench::Machine machine = bench::this_machine();
  if (output == Output::json) {
    nlohmann::ordered_json object{{"version", version()},
                                  {"commit", bench::commit()},
                                  {"compiler", bench::compiler()},
                                  {"threads", bench::thread_library()},
                                  {"cpu", machine.cpu},
                                  {"cores", machine.cores},
                                  {"features", machine.features},
                                  {"amx", machine.amx},
                                  {"highway_targets", cpu::highway_target_count()},
                                  {"highway", highway_in_use()},
                                  {"backends", {"cpu"}}};
    const cuda::Presence found = cuda::presence();
    if (!cuda::kernels().empty()) object["backends"].push_back("cuda");
    object["cuda_devices"] = found.devices;
    object["cuda_absence"] = found.absence;
    const cuda::FormulaCompiler nvrtc = cuda::formula_compiler();
    object["nvrtc"] = {
        {"version", nvrtc.version}, {"path", nvrtc.path}, {"absence", nvrtc.absence}};
    for (const Place& place : cuda_places()) object["cuda_searched"][place.path] = place.what;
    fmt::print("{}\n", object.dump(2));
    return;
  }
  fmt::print("tilefold      {} (commit {})\n", version(), bench::commit());
  fmt::print("compiler      {}\n", bench::compiler());
  fmt::print("threads       {}\n", bench::thread_library());
  fmt::print("CPU           {}, {} cores\n", machine.cpu, machine.cores);
  fmt::print("features      {}\n", fmt::join(machine.features, " "));
  fmt::print("AMX           {}\n", machine.amx);
  fmt::print("Highway       {} ({} compiled targets run here)\n", highway_in_use(),
             cpu::highway_target_count());
  const cuda::Presence found = cuda::presence();
  fmt::print("backends      cpu{}\n", cuda::kernels().empty() ? "" : ", cuda");
  for (const std::string& device : found.devices) fmt::print("CUDA device   {}\n", device);
  if (!found.absence.empty()) fmt::print("CUDA device   {}\n", found.absence);
  const cuda::FormulaCompiler nvrtc = cuda::formula_compiler();
  fmt::print("NVRTC         {}\n", nvrtc.absence.empty()
                                       ? fmt::format("{}, {}", nvrtc.version, nvrtc.path)
                                       : nvrtc.absence);
  for (const Place& place : cuda_places())
    fmt::print("CUDA          {}: {}\n", place.path, place.what);
}

}  // namespace

void add_info(CLI::App& tool) {
  CLI::App* command = tool.add_subcommand("info", "Version, CPU, instruction sets and backends");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Prints one JSON object");
  command->callback([json] { print_info(*json ? Output::json : Output::text); });
}

}  // namespace tilefold::cli
