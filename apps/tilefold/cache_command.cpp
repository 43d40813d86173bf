// `tilefold cache`: kernels of formulas that earlier processes left on the disk.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "cuda/formula_compiler.hpp"

namespace tilefold::cli {

namespace {

struct CacheArguments {
  bool clear = false, json = false;
};

double megabytes(std::uint64_t bytes) { return double(bytes) / (1 << 20); }

void print_cache(const CacheArguments& a) {
  const cuda::FormulaCache cache = a.clear ? cuda::clear_formula_cache() : cuda::formula_cache();
  if (a.json) {
    const nlohmann::ordered_json object{
        {"directory", cache.directory},     {"absence", cache.why_none},
        {"entries", cache.entries},         {"bytes", cache.bytes},
        {"limit_bytes", cache.limit_bytes}, {"cleared", a.clear}};
    fmt::print("{}\n", object.dump(2));
    return;
  }
  if (cache.directory.empty()) {
    fmt::print("no cache: {}\n", cache.why_none);
    return;
  }
  fmt::print("directory  {}\n", cache.directory);
  fmt::print("{}{} kernel{}, {:.1f} MB of at most {:.0f}\n",
             a.clear ? "removed    " : "holds      ", cache.entries, cache.entries == 1 ? "" : "s",
             megabytes(cache.bytes), megabytes(cache.limit_bytes));
}

}  // namespace

void add_cache(CLI::App& tool) {
  CLI::App* command =
      tool.add_subcommand("cache", "Kernels of formulas that were compiled at run time");
  const auto arguments = std::make_shared<CacheArguments>();
  command->add_flag("--clear", arguments->clear, "Removes them all");
  command->add_flag("--json", arguments->json, "Prints one JSON object");
  command->callback([arguments] { print_cache(*arguments); });
}

}  // namespace tilefold::cli
