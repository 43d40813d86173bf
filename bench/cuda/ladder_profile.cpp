#include "bench/cuda/ladder_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

namespace fs = std::filesystem;

struct Close {
  void operator()(std::FILE* file) const { pclose(file); }
};

/// What a command prints; nothing where it cannot start. `on_line` sees each piece as it comes.
std::string output_of(const std::string& command,
                      const std::function<void(const std::string&)>& on_line = {}) {
  const std::unique_ptr<std::FILE, Close> pipe(popen((command + " 2>&1").c_str(), "r"));
  std::string text;
  std::array<char, 4096> part;
  while (pipe && std::fgets(part.data(), int(part.size()), pipe.get()) != nullptr) {
    text += part.data();
    if (on_line) on_line(part.data());
  }
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

const Metric* metric_named(const std::string& text) {
  for (const Metric& metric : metrics())
    for (const char* name : metric.names)
      if (text == std::string(name) + metric.suffix) return &metric;
  return nullptr;
}

/// The metrics of this card: asking ncu for one that it does not know fails the whole run. Where it
/// lists none, the first name of each.
std::string metrics_to_ask(const std::string& ncu) {
  std::istringstream listing(output_of(ncu + " --query-metrics"));
  std::set<std::string> known;
  for (std::string line; std::getline(listing, line);) known.insert(line.substr(0, line.find(' ')));
  std::string list;
  const auto ask = [&](const Metric& metric, const char* name) {
    list += (list.empty() ? "" : ",") + std::string(name) + metric.suffix;
  };
  for (const Metric& metric : metrics())
    for (const char* name : metric.names)
      if (known.count(name) != 0) {
        ask(metric, name);
        break;
      }
  if (!list.empty()) return list;
  for (const Metric& metric : metrics()) ask(metric, metric.names[0]);
  return list;
}

/// One line of CSV; a quote within quotes is doubled.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[++i];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      fields.emplace_back();
    else if (line[i] != '\r')
      fields.back() += line[i];
  }
  return fields;
}

/// "void tilefold::cuda::ladder::v2::forward<64>(...)" is "v2::forward<64>"; long template
/// arguments are cut.
std::string short_name(const std::string& kernel) {
  std::string text = kernel.substr(0, kernel.find('('));
  text = text.substr(text.rfind(' ', text.find('<')) + 1);
  for (const std::string prefix : {"tilefold::cuda::ladder::", "tilefold::cuda::"})
    for (std::size_t at; (at = text.find(prefix)) != std::string::npos;)
      text.erase(at, prefix.size());
  constexpr std::size_t longest = 34;
  return text.size() <= longest ? text : text.substr(0, longest - 2) + "..";
}

/// ncu groups thousands where the locale does.
std::string number_of(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  return text.empty() ? "-" : text;
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

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// Folders of `parent` whose names begin so, the last in the order of names first.
std::vector<fs::path> folders_in(const fs::path& parent, const std::string& begin) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored))
    if (entry.is_directory(ignored) && entry.path().filename().string().rfind(begin, 0) == 0)
      found.push_back(entry.path());
  std::sort(found.rbegin(), found.rend());
  return found;
}

std::vector<fs::path> places_of_ncu(const fs::path& root) {
  std::vector<fs::path> places;
  std::istringstream path(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) places.emplace_back(folder);
  if (const char* home = std::getenv("CUDA_HOME")) places.push_back(fs::path(home) / "bin");
  for (const fs::path& toolkit : folders_in(root / "usr/local", "cuda")) {
    places.push_back(toolkit / "bin");
    for (const fs::path& folder : folders_in(toolkit, "nsight-compute")) places.push_back(folder);
  }
  for (const fs::path& folder : folders_in(root / "opt/nvidia/nsight-compute", ""))
    places.push_back(folder);
  return places;
}

}  // namespace

fs::path find_ncu(const fs::path& root) {
  if (const char* named = std::getenv("TILEFOLD_NCU"))
    return is_program(named) ? fs::path(named) : fs::path();
  for (const fs::path& place : places_of_ncu(root))
    if (is_program(place / "ncu")) return place / "ncu";
  return {};
}

std::vector<LadderCounters> parse_counters(const std::string& text,
                                           std::span<const std::string> rungs) {
  std::optional<Columns> columns;
  std::vector<LadderCounters> counters;
  std::string last_id, marker_id;
  std::size_t markers = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind('"', 0) != 0) continue;
    const std::vector<std::string> fields = fields_of(line);
    if (!columns) {
      columns = columns_of(fields);
      continue;
    }
    if (fields.size() <= std::max(columns->value, columns->metric)) continue;
    const std::string &kernel = fields[columns->kernel], &id = fields[columns->id];
    if (holds(kernel, "rung_marker")) {
      markers += id != marker_id ? 1 : 0;
      marker_id = id;
      continue;
    }
    const Metric* const metric = metric_named(fields[columns->metric]);
    const bool owned = markers > 0 && markers <= rungs.size() && !holds(kernel, "write_normal");
    if (!owned || metric == nullptr) continue;
    if (id != last_id)
      counters.push_back({rungs[markers - 1], short_name(kernel), "-", "-", "-", "-", "-"});
    last_id = id;
    counters.back().*(metric->field) = number_of(fields[columns->value]);
  }
  if (counters.empty())
    throw Error(ErrorCode::unsupported, "ncu read no counters: " + text.substr(0, 400));
  return counters;
}

std::vector<LadderCounters> profile(const std::string& command, std::span<const std::string> rungs,
                                    const ProfileProgress& progress) {
  const fs::path found = find_ncu();
  if (found.empty())
    throw Error(ErrorCode::unsupported,
                "--profile needs ncu (Nsight Compute): it is not on PATH, in CUDA_HOME, in "
                "/usr/local/cuda*/bin or in /opt/nvidia/nsight-compute; TILEFOLD_NCU may name it");
  const std::string ncu = "LC_ALL=C '" + found.string() + "'";
  std::size_t begun = 0;
  const auto on_line = [&](const std::string& line) {
    if (!progress || !holds(line, "==PROF== Profiling \"rung_marker\"")) return;
    if (begun < rungs.size())
      progress(double(begun) / double(rungs.size()), "ncu: " + rungs[begun]);
    ++begun;
  };
  // The card's clocks stay as they are: they are not ours to lock.
  const std::string how = " --clock-control none --csv --print-units base --metrics ";
  return parse_counters(output_of(ncu + how + metrics_to_ask(ncu) + " " + command, on_line), rungs);
}

std::string to_table(std::span<const LadderCounters> counters) {
  constexpr const char* line = "{:<20} {:<34} {:>14} {:>8} {:>9} {:>9} {:>14}\n";
  std::string text = "\n" + fmt::format(line, "rung", "kernel", "device bytes", "L2 hit %",
                                        "tensor %", "barrier", "bank conflicts");
  for (const LadderCounters& c : counters)
    text += fmt::format(line, c.rung, c.kernel, c.device_bytes, c.l2_hit_percent,
                        c.tensor_pipe_percent, c.barrier_stalls, c.bank_conflicts);
  return text + "barrier: warps waiting at a barrier for each instruction issued\n";
}

std::string to_csv(std::span<const LadderCounters> counters, const std::string& head) {
  std::string text = "# " + head +
                     "\nrung,kernel,device_bytes,l2_hit_percent,tensor_pipe_percent,barrier_stalls,"
                     "bank_conflicts\n";
  for (const LadderCounters& c : counters)
    text +=
        fmt::format("{},\"{}\",{},{},{},{},{}\n", c.rung, c.kernel, c.device_bytes,
                    c.l2_hit_percent, c.tensor_pipe_percent, c.barrier_stalls, c.bank_conflicts);
  return text;
}

}  // namespace tilefold::bench
