#include "plan/explain.hpp"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

namespace tilefold::planner {

namespace {

// What one core draws from DRAM when all are at work: the order of a server part, not a
// measurement.
constexpr double assumed_memory_bytes_per_cycle = 4;

const char* layout_name(const core::Geometry& g, PageLayout pages) {
  if (g.key_layout == core::KeyLayout::paged)
    return pages == PageLayout::nhd ? "paged keys (NHD)" : "paged keys (HND)";
  if (g.key_layout == core::KeyLayout::ragged) return "ragged";
  return g.query_layout == core::QueryLayout::ragged ? "ragged queries, dense keys" : "dense";
}

std::string describe(const core::Geometry& g) {
  std::string dtypes = name(g.query_dtype);
  if (g.key_dtype != g.query_dtype || g.value_dtype != g.query_dtype)
    dtypes += fmt::format(" over {} keys and {} values", name(g.key_dtype), name(g.value_dtype));
  return fmt::format(
      "{} sequence{}, {} query heads over {} KV heads, head dimension {}{}, up to {} queries and "
      "{} "
      "keys, {} -> {}",
      g.batch, g.batch == 1 ? "" : "s", g.query_heads, g.kv_heads, g.head_dim,
      g.value_dim == g.head_dim ? "" : fmt::format(" (values {})", g.value_dim), g.max_query_length,
      g.max_key_length, dtypes, name(g.out_dtype));
}

std::string describe_score(const Problem& problem) {
  std::string text;
  const auto add = [&](const std::string& step) { text += (text.empty() ? "" : ", then ") + step; };
  if (problem.options.softcap) add(fmt::format("softcap({:g})", *problem.options.softcap));
  if (problem.tensors.alibi_slopes.present()) add("ALiBi");
  if (problem.tensors.bias.present()) add("bias");
  if (problem.options.score.node()) add(problem.options.score.text());
  return text.empty() ? "none" : text;
}

// Every input and output row once: the least a run can move.
double compulsory_bytes(const core::Geometry& g, bool lse) {
  double queries = 0, keys = 0;
  for (const core::Sequence& s : g.sequences) {
    queries += double(s.query_length) * g.query_heads;
    keys += double(s.key_length) * g.kv_heads;
  }
  return queries * (g.head_dim * bytes_of(g.query_dtype) + g.value_dim * bytes_of(g.out_dtype) +
                    (lse ? 4 : 0)) +
         keys * (g.head_dim * bytes_of(g.key_dtype) + g.value_dim * bytes_of(g.value_dtype));
}

// A product of two elements costs their share of a refill of the registers; scores pass as f32 (f64
// for f64 inputs).
double cache_bytes(const core::Geometry& g, const Candidate& kernel, double pairs) {
  const double sum_bytes = g.computes_in_double() ? 8 : 4;
  const double products = double(g.head_dim + g.value_dim);
  return pairs *
         (products * bytes_of(kernel.compute) / kernel.reuse + kernel.score_passes * sum_bytes);
}

std::string counted(double value, const char* unit) {
  const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
  int step = 0;
  while (value >= 1000 && step < 5) {
    value /= 1000;
    ++step;
  }
  return fmt::format("{:.3g} {}{}", value, prefixes[step], unit);
}

}  // namespace

const char* Roofs::binding() const {
  const double most = std::max({memory, multiply, exponential, cache});
  if (most == multiply) return "multiply";
  if (most == exponential) return "exponential";
  return most == memory ? "memory" : "cache";
}

namespace {

double memory_bytes_per_cycle(const Machine& machine) {
  if (machine.kind == Machine::Kind::cpu) return assumed_memory_bytes_per_cycle;
  return machine.bytes_per_second / machine.cycles_per_second;
}

Roofs roofs_of(const Explanation& e, const core::Geometry& g, const Candidate& kernel) {
  const double pairs = double(e.work.pairs);
  const double cores = e.machine.kind == Machine::Kind::gpu ? e.machine.cores : 1;
  return {e.bytes / memory_bytes_per_cycle(e.machine), e.flops / (kernel.flops_per_cycle * cores),
          pairs / (kernel.exponentials_per_cycle * cores),
          cache_bytes(g, kernel, pairs) / (kernel.cache_bytes_per_cycle * cores)};
}

}  // namespace

namespace {

std::string time_text(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.3g} us", 1e6 * seconds)
                        : fmt::format("{:.3g} ms", 1e3 * seconds);
}

const Prediction* prediction_of(const Explanation& e, const std::string& kernel) {
  for (const PredictedKernel& p : e.predicted)
    if (p.name == kernel) return &p.prediction;
  return nullptr;
}

/// Why the chosen kernel and no other that was asked; nothing where there was no choice to make.
std::string reason_of(const Explanation& e, const Problem& problem) {
  if (e.predicted.empty()) return "";
  if (e.predicted.size() == 1) return "the only family that can";
  if (order_decides(problem))
    return "batch-invariant: the first that can, whatever the predicted times";
  const double own = prediction_of(e, e.kernel)->seconds();
  double next = 0;
  std::string name;
  for (const PredictedKernel& p : e.predicted)
    if (p.name != e.kernel && (name.empty() || p.prediction.seconds() < next))
      next = p.prediction.seconds(), name = p.name;
  if (next == own) return fmt::format("as fast as {} and before it in order", name);
  return fmt::format("the least predicted time; {} takes {:.2f} of it", name, next / own);
}

/// Why a kernel that could compute the problem does not.
std::string why_not(int kernel, std::span<const Candidate> candidates,
                    std::span<const Contender> asked, const Explanation& e) {
  const Candidate& candidate = candidates[std::size_t(kernel)];
  for (const Contender& c : asked) {
    const Candidate& other = candidates[std::size_t(c.kernel)];
    if (c.kernel == kernel && c.prediction)
      return fmt::format("{} predicted: {} takes {}", time_text(c.prediction->seconds()), e.kernel,
                         time_text(prediction_of(e, e.kernel)->seconds()));
    if (c.kernel != kernel && std::strcmp(other.family, candidate.family) == 0 && c.prediction)
      return fmt::format("{} stands before it in its family", other.name);
  }
  return "slower here than " + e.kernel;
}

}  // namespace

Explanation explain(std::span<const Candidate> candidates, int chosen, const core::Geometry& given,
                    const Problem& problem, const Schedule& schedule, const Machine& machine) {
  const Candidate& kernel = candidates[std::size_t(chosen)];
  const core::Geometry geometry = core::sized_by_capacity(given, problem.options);
  Explanation e;
  e.kernel = kernel.name;
  e.instructions = kernel.instructions;
  e.problem = describe(geometry);
  e.mask = problem.options.mask.text();
  e.score = describe_score(problem);
  e.layout = layout_name(geometry, problem.options.page_layout);
  const std::vector<Contender> asked = contenders(candidates, given, problem);
  for (const Contender& c : asked)
    if (c.prediction)
      e.predicted.push_back({candidates[std::size_t(c.kernel)].name, *c.prediction});
  e.because = reason_of(e, problem);
  std::vector<KernelRefusal> rejected;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (int(i) == chosen) continue;
    const auto reason = refusal(candidates[i], given, problem);
    rejected.push_back({&candidates[i], reason ? *reason : why_not(int(i), candidates, asked, e)});
    e.rejected.push_back({candidates[i].name, rejected.back().reason});
  }
  e.grouped = grouped(rejected);
  e.tile = schedule.tile;
  e.split_keys = schedule.split_keys;
  e.items = schedule.items();
  e.work = count_work(geometry, schedule, problem.options.mask.node());
  e.bluntness = blunt_terms(geometry, schedule, problem.options.mask.node());
  const double pairs = double(e.work.pairs);
  e.flops = 2 * pairs * (geometry.head_dim + geometry.value_dim);
  e.bytes = compulsory_bytes(geometry, problem.tensors.lse.present());
  e.machine = machine;
  e.by_capacity = given.lengths_on_device;
  e.tensor_pipe = bits_of(kernel.compute) == 16;
  e.roofs = roofs_of(e, geometry, kernel);
  return e;
}

namespace {

std::string work_text(const Explanation& e) {
  const char* core = e.machine.kind == Machine::Kind::gpu ? "multiprocessor" : "thread";
  return fmt::format("work       {} items on {} {}{}, {}\n", e.items, e.machine.cores, core,
                     e.machine.cores == 1 ? "" : "s",
                     e.split_keys ? fmt::format("rows split at every {} keys", e.split_keys)
                                  : std::string("rows not split"));
}

std::string tiles_text(const Explanation& e) {
  const TileCounts& t = e.work.tiles;
  const std::int64_t all = t.none + t.partial + t.full;
  const auto percent = [&](std::int64_t part) {
    return all == 0 ? 0.0 : 100.0 * double(part) / double(all);
  };
  if (e.by_capacity)
    return fmt::format(
        "tiles met  at most {} of {} ({:.1f} %): lengths are on the device, counted by capacity\n",
        t.full + t.partial, all, percent(t.full + t.partial));
  return fmt::format("tiles met  {} full ({:.1f} %), {} partial ({:.1f} %), {} hidden ({:.1f} %)\n",
                     t.full, percent(t.full), t.partial, percent(t.partial), t.none,
                     percent(t.none));
}

std::string bluntness_text(const Explanation& e) {
  std::string text;
  for (const BluntTerm& term : e.bluntness.terms)
    text += fmt::format(
        "blunt      {}: undecided in {} of {} corners of partial tiles whose "
        "elements agree\n",
        term.text, term.rectangles, e.bluntness.rectangles);
  return text;
}

std::string counts_text(const Explanation& e) {
  if (e.by_capacity)
    return fmt::format("counts     at most {} in touched tiles, at most {}, workspace {}\n",
                       counted(e.flops, "FLOP"), counted(e.bytes, "B"),
                       counted(double(e.workspace_bytes), "B"));
  return fmt::format("counts     {} in touched tiles, {} at least, workspace {}\n",
                     counted(e.flops, "FLOP"), counted(e.bytes, "B"),
                     counted(double(e.workspace_bytes), "B"));
}

const char* product_roof(const Explanation& e) {
  return e.tensor_pipe ? "tensor pipe" : "multiply-add units";
}

std::string gpu_roofs_text(const Explanation& e) {
  const auto time = [&](double cycles) {
    return counted(1e6 * cycles / e.machine.cycles_per_second, "us");
  };
  const std::string binding = e.roofs.binding();
  const Machine& m = e.machine;
  return fmt::format(
      "card       {}{}: {} of device memory, {} multiprocessors at up to {}\n"
      "roofs      {} {}, exponential unit {}, shared memory {}, device memory {}{}: {} binds\n",
      m.name, m.here ? "" : " (assumed: this machine has no CUDA device)",
      counted(m.bytes_per_second, "B/s"), m.cores, counted(m.cycles_per_second, "Hz"),
      product_roof(e), time(e.roofs.multiply), time(e.roofs.exponential), time(e.roofs.cache),
      time(e.roofs.memory), e.by_capacity ? ", at most" : "",
      binding == "multiply"      ? product_roof(e)
      : binding == "exponential" ? "exponential unit"
      : binding == "cache"       ? "shared memory"
                                 : "device memory");
}

/// "sm90 bf16 d128 128x128: 758 us (measured rates): 2048 items in 16 waves, 32.0 key tiles ...".
std::string model_text(const PredictedKernel& kernel, bool by_capacity) {
  const Prediction& p = kernel.prediction;
  std::string terms = fmt::format(
      "{} items in {} wave{}, {:.1f} key tiles an item{}; multiprocessors {}, device "
      "memory {}, launch {}",
      p.items, p.waves, p.waves == 1 ? "" : "s", p.tiles,
      p.counts_hidden ? ", what the mask hides among them" : "", time_text(p.work_seconds),
      time_text(p.memory_seconds), time_text(p.launch_seconds));
  if (p.merge_seconds > 0) terms += fmt::format(", merge {}", time_text(p.merge_seconds));
  const bool at_most = by_capacity || p.counts_hidden;
  return fmt::format("model      {}: {}{} ({}): {}\n", kernel.name, at_most ? "at most " : "",
                     time_text(p.seconds()), p.measured ? "measured rates" : "estimated rates",
                     terms);
}

std::string models_text(const Explanation& e) {
  std::string text;
  for (const PredictedKernel& p : e.predicted) text += model_text(p, e.by_capacity);
  if (!e.because.empty()) text += fmt::format("chosen     {}: {}\n", e.kernel, e.because);
  return text;
}

nlohmann::ordered_json model_json(const PredictedKernel& kernel) {
  const Prediction& p = kernel.prediction;
  return {{"kernel", kernel.name},
          {"seconds", p.seconds()},
          {"measured", p.measured},
          {"items", p.items},
          {"waves", p.waves},
          {"tiles_an_item", p.tiles},
          {"counts_hidden_tiles", p.counts_hidden},
          {"work_seconds", p.work_seconds},
          {"memory_seconds", p.memory_seconds},
          {"launch_seconds", p.launch_seconds},
          {"merge_seconds", p.merge_seconds}};
}

std::string cpu_roofs_text(const Explanation& e) {
  return fmt::format(
      "roofs      multiply {}, exponential {}, cache {}, memory {} (of one core; memory at an "
      "assumed {:g} B a cycle): {} binds\n",
      counted(e.roofs.multiply, "cycles"), counted(e.roofs.exponential, "cycles"),
      counted(e.roofs.cache, "cycles"), counted(e.roofs.memory, "cycles"),
      assumed_memory_bytes_per_cycle, e.roofs.binding());
}

}  // namespace

std::string to_text(const Explanation& e) {
  std::string text = fmt::format("kernel     {} ({})\n", e.kernel, e.instructions);
  if (!e.compilation.empty()) text += fmt::format("compiled   {}\n", e.compilation);
  if (!e.interpretation.empty()) text += fmt::format("formula    {}\n", e.interpretation);
  text += fmt::format("problem    {}\n", e.problem);
  text += fmt::format("layout     {}\n", e.layout);
  text += fmt::format("mask       {}\n", e.mask);
  text += fmt::format("score      {}\n", e.score);
  text += fmt::format("tiles      {} rows x {} keys, {} rows share a key tile\n",
                      e.tile.tile_queries, e.tile.tile_keys, e.tile.block_queries);
  text += work_text(e) + tiles_text(e) + bluntness_text(e) + counts_text(e);
  text += e.machine.kind == Machine::Kind::gpu ? gpu_roofs_text(e) : cpu_roofs_text(e);
  text += models_text(e);
  for (const GroupedRefusal& r : e.grouped)
    text += fmt::format("not        {}: {}\n", r.who, r.reason);
  return text;
}

std::string to_json(const Explanation& e) {
  nlohmann::ordered_json json;
  json["kernel"] = e.kernel;
  json["instructions"] = e.instructions;
  if (!e.compilation.empty()) json["compilation"] = e.compilation;
  if (!e.interpretation.empty()) json["interpretation"] = e.interpretation;
  json["problem"] = e.problem;
  json["layout"] = e.layout;
  json["mask"] = e.mask;
  json["score"] = e.score;
  json["tile"] = {{"queries", e.tile.tile_queries},
                  {"keys", e.tile.tile_keys},
                  {"block_queries", e.tile.block_queries}};
  json["split_keys"] = e.split_keys;
  json["items"] = e.items;
  json[e.machine.kind == Machine::Kind::gpu ? "multiprocessors" : "threads"] = e.machine.cores;
  json["by_capacity"] = e.by_capacity;
  json["tiles"] = {
      {"full", e.work.tiles.full}, {"partial", e.work.tiles.partial}, {"none", e.work.tiles.none}};
  json["blunt_terms"] = nlohmann::ordered_json::array();
  for (const BluntTerm& term : e.bluntness.terms)
    json["blunt_terms"].push_back(
        {{"term", term.text}, {"rectangles", term.rectangles}, {"of", e.bluntness.rectangles}});
  json["flops"] = e.flops;
  json["bytes"] = e.bytes;
  json["workspace_bytes"] = e.workspace_bytes;
  // Of one CPU core, or of all multiprocessors of a GPU together.
  json["roofs_cycles"] = {{"multiply", e.roofs.multiply},
                          {"exponential", e.roofs.exponential},
                          {"cache", e.roofs.cache},
                          {"memory", e.roofs.memory}};
  if (e.machine.kind == Machine::Kind::gpu)
    json["card"] = {{"name", e.machine.name},
                    {"here", e.machine.here},
                    {"bytes_per_second", e.machine.bytes_per_second},
                    {"cycles_per_second", e.machine.cycles_per_second}};
  json["binding_roof"] = e.roofs.binding();
  json["predicted"] = nlohmann::ordered_json::array();
  for (const PredictedKernel& p : e.predicted) json["predicted"].push_back(model_json(p));
  json["because"] = e.because;
  json["rejected"] = nlohmann::ordered_json::array();
  for (const RejectedKernel& r : e.rejected)
    json["rejected"].push_back({{"kernel", r.name}, {"reason", r.reason}});
  return json.dump(2);
}

}  // namespace tilefold::planner
