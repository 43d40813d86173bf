// Hardware counters of each rung, through Nsight Compute (ncu) where it is installed.
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "bench/cuda/ladder_bench.hpp"
#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

struct Close {
  void operator()(std::FILE* file) const { pclose(file); }
};

/// What a command prints; nothing where it cannot start.
std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, Close> pipe(popen((command + " 2>&1").c_str(), "r"));
  std::string text;
  std::array<char, 4096> part;
  while (pipe && std::fgets(part.data(), int(part.size()), pipe.get()) != nullptr)
    text += part.data();
  return text;
}

/// A counter under the names that generations of cards give it, the newest first.
struct Metric {
  std::string LadderCounters::*field;
  std::vector<const char*> names;
  const char* suffix;
};
const std::array<Metric, 5>& metrics() {
  static const std::array<Metric, 5> all = {{
      {&LadderCounters::device_bytes, {"dram__bytes"}, ".sum"},
      {&LadderCounters::l2_hit_percent, {"lts__t_sector_hit_rate"}, ".pct"},
      {&LadderCounters::tensor_pipe_percent,
       {"sm__pipe_tensor_cycles_active", "sm__pipe_tensor_op_hmma_cycles_active",
        "sm__inst_executed_pipe_tensor"},
       ".avg.pct_of_peak_sustained_active"},
      {&LadderCounters::barrier_stalls,
       {"smsp__average_warps_issue_stalled_barrier_per_issue_active"},
       ".ratio"},
      {&LadderCounters::bank_conflicts, {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared"}, ".sum"},
  }};
  return all;
}

/// The metrics of this card by name: asking ncu for one that it does not know fails the whole run.
std::map<std::string, const Metric*> available_metrics() {
  std::istringstream listing(output_of("ncu --query-metrics"));
  std::set<std::string> known;
  for (std::string line; std::getline(listing, line);) known.insert(line.substr(0, line.find(' ')));
  std::map<std::string, const Metric*> chosen;
  for (const Metric& metric : metrics())
    for (const char* name : metric.names)
      if (known.count(name) != 0) {
        chosen[std::string(name) + metric.suffix] = &metric;
        break;
      }
  return chosen;
}

/// One line of CSV whose every field is quoted.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  for (std::size_t open = line.find('"'); open != std::string::npos;) {
    const std::size_t close = line.find('"', open + 1);
    if (close == std::string::npos) break;
    fields.push_back(line.substr(open + 1, close - open - 1));
    open = line.find('"', close + 1);
  }
  return fields;
}

/// "void tilefold::cuda::ladder::v2::forward<64>(...)" is "v2::forward<64>".
std::string short_name(const std::string& kernel) {
  const std::string space = "tilefold::cuda::";
  std::string text = kernel.substr(0, kernel.find('('));
  text = text.substr(text.rfind(' ', text.find('<')) + 1);
  for (const std::string& prefix : {space + "ladder::", space})
    for (std::size_t at; (at = text.find(prefix)) != std::string::npos;)
      text.erase(at, prefix.size());
  return text;
}

struct Columns {
  std::size_t id, kernel, metric, value;
};
std::optional<Columns> columns_of(const std::vector<std::string>& header) {
  std::map<std::string, std::size_t> at;
  for (std::size_t i = 0; i < header.size(); ++i) at[header[i]] = i;
  for (const char* needed : {"ID", "Kernel Name", "Metric Name", "Metric Value"})
    if (at.count(needed) == 0) return std::nullopt;
  return Columns{at["ID"], at["Kernel Name"], at["Metric Name"], at["Metric Value"]};
}

}  // namespace

std::vector<LadderCounters> profile(const std::string& command) {
  if (output_of("ncu --version").find("NVIDIA") == std::string::npos)
    throw Error(ErrorCode::unsupported, "ncu (Nsight Compute) is not on PATH: --profile needs it");
  const auto chosen = available_metrics();
  std::string list;
  for (const auto& [name, metric] : chosen) list += (list.empty() ? "" : ",") + name;
  if (list.empty())
    throw Error(ErrorCode::unsupported,
                "ncu lists no counters: it may not read those of this device");
  // The card's clocks stay as they are: they are not ours to lock.
  const std::string text = output_of(
      "ncu --clock-control none --csv --print-units base --metrics " + list + " " + command);
  std::optional<Columns> columns;
  std::vector<LadderCounters> counters;
  std::string last_id;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind('"', 0) != 0) continue;
    const std::vector<std::string> fields = fields_of(line);
    if (!columns) {
      columns = columns_of(fields);
      continue;
    }
    if (fields.size() <= columns->value) continue;
    const std::string& kernel = fields[columns->kernel];
    const auto metric = chosen.find(fields[columns->metric]);
    if (kernel.find("write_normal") != std::string::npos || metric == chosen.end()) continue;
    if (fields[columns->id] != last_id)
      counters.push_back({short_name(kernel), "-", "-", "-", "-", "-"});
    last_id = fields[columns->id];
    counters.back().*(metric->second->field) = fields[columns->value];
  }
  if (counters.empty())
    throw Error(ErrorCode::unsupported, "ncu read no counters: " + text.substr(0, 400));
  return counters;
}

}  // namespace tilefold::bench
