#include "bench/cpu_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "bench/dense_problem.hpp"
#include "bench/materialised.hpp"
#include "bench/peak_memory.hpp"
#include "bench/timing.hpp"
#include "bench/visible_pairs.hpp"
#include "core/parallel_for.hpp"
#include "tilefold/attention.hpp"

namespace tilefold::bench {

namespace {

constexpr const char* materialised_name = "materialised";
constexpr double seconds_a_shape = 5;  // turns go on until this is spent, at least three
constexpr int most_turns = 15;
constexpr std::size_t shapes_between_peaks = 8;

// Other libraries' worker threads spin for a while after a call: they would take the cores from the
// next contender.
void let_spinning_threads_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

std::vector<Shape> shapes_of(const CpuBenchOptions& options) {
  std::vector<Shape> shapes;
  for (const DType dtype : options.dtypes)
    for (const int dim : {64, 128})
      for (const bool causal : {false, true})
        for (const int tokens : {1024, 2048, 4096, 8192}) {
          if (options.length == Length::quick && tokens > 2048) continue;
          // Half the heads at 8192 keep a whole run within five minutes on two cores.
          shapes.push_back({dtype, 1, tokens == 8192 ? 4 : 8, tokens, dim, causal});
        }
  return shapes;
}

double cost(const Shape& s) {
  return double(s.heads) * s.tokens * s.tokens * s.head_dim * (s.causal ? 0.75 : 1.0);
}

class Bench {
 public:
  Bench(const CpuBenchOptions& options, const BenchProgress& progress)
      : options_(options), progress_(progress), threads_(core::thread_count(options.threads)) {}

  CpuBenchReport run() {
    report_.seconds = seconds_of([&] { run_all(); });
    return std::move(report_);
  }

 private:
  void tell(double part, const std::string& next) const {
    if (progress_) progress_(part, next);
  }

  void run_all() {
    tell(0, "multiply-add peak");
    report_.threads = threads_;
    raise_peaks();
    {
      std::vector<std::string> children;
      for (const std::string& peer : options_.peers) {
        if (peer == materialised_name)
          report_.peers[peer] = "float32, bench/materialised.cpp";
        else
          children.push_back(peer);
      }
      Peers peers(options_.python, threads_, children);
      report_.peers.insert(peers.present().begin(), peers.present().end());
      report_.absent_peers = peers.absent();
      measure_shapes(peers);
    }
    // The other libraries' process has ended: nothing spins beside the sections.
    measure_checks();
  }

  void measure_shapes(Peers& peers) {
    const std::vector<Shape> shapes = shapes_of(options_);
    double all = 0, done = 0;
    for (const Shape& s : shapes) all += cost(s);
    for (const Shape& s : shapes) {
      if (report_.rows.size() % shapes_between_peaks == 0) raise_peaks();
      tell(0.85 * done / all, fmt::format("{} {} tokens, head dimension {}{}", name(s.dtype),
                                          s.tokens, s.head_dim, s.causal ? ", causal" : ""));
      report_.rows.push_back(measure_shape(s, peers));
      done += cost(s);
    }
    raise_peaks();
    for (ShapeRow& row : report_.rows)
      row.fma_fraction = row.flops / row.seconds / report_.peaks.f32_fma;
  }

  // Other work on the machine lowers what one measurement finds: the highest of several is the
  // peak.
  void raise_peaks() {
    const Peaks now = measure_peaks(threads_);
    report_.peaks = {std::max(report_.peaks.f32_fma, now.f32_fma),
                     std::max(report_.peaks.bf16_dot, now.bf16_dot), now.vectors};
  }

  ShapeRow measure_shape(const Shape& shape, Peers& peers) {
    DenseProblem dense(shape, threads_);
    Plan ours = plan(dense.problem);
    ours.prepare();
    ShapeRow row;
    row.shape = shape;
    row.kernel = ours.kernel();
    row.flops = visible_flops(core::resolve(dense.problem), dense.problem.options.mask);
    std::vector<double> our_seconds;
    std::map<std::string, std::vector<double>> peer_seconds;
    ours.run(dense.problem.tensors);  // pages, caches, clocks
    const int fewest = options_.length == Length::quick ? 2 : 3;
    const double budget = options_.length == Length::quick ? 0.5 : seconds_a_shape;
    const auto start = std::chrono::steady_clock::now();
    const auto spent = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    while (row.turns < fewest || (spent() < budget && row.turns < most_turns)) {
      our_seconds.push_back(seconds_of([&] { ours.run(dense.problem.tensors); }));
      take_turn(dense.problem, shape, peers, peer_seconds);
      ++row.turns;
    }
    row.seconds = median(our_seconds);
    for (const auto& [peer, seconds] : peer_seconds) row.peers[peer] = median(seconds);
    return row;
  }

  void take_turn(const Problem& problem, const Shape& shape, Peers& peers,
                 std::map<std::string, std::vector<double>>& seconds) const {
    for (const auto& [peer, version] : report_.peers) {
      if (peer == materialised_name) {
        seconds[peer].push_back(seconds_of([&] { materialised(problem); }));
        continue;
      }
      if (const auto time = peers.time(peer, shape)) seconds[peer].push_back(*time);
      let_spinning_threads_sleep();
    }
  }

  void measure_checks() {
    if (options_.length == Length::full) {
      tell(0.86, "memory at 131072 tokens");
      check_memory();
      tell(0.94, "causal against full at 8192");
      check_work("causal / full at 8192", {8192, 0}, {8192, -1}, 0.56);
      tell(0.96, "window 4096 against causal at 32768");
      check_work("window 4096 / causal at 32768", {32768, 4096}, {32768, 0}, 0.27);
    }
    tell(0.99, "plan time");
    check_plan_time();
    tell(1, "");
  }

  void check_memory() {
    const Shape shape{DType::f32, 1, 1, 131072, 64, true};
    DenseProblem dense(shape, threads_);
    double seconds = 0;
    const auto bytes = peak_above(
        [&] { seconds = seconds_of([&] { plan(dense.problem).run(dense.problem.tensors); }); });
    if (!bytes) return;
    report_.checks.push_back(
        {"memory above inputs and outputs, 131072 tokens, one head of 64, causal, f32", "MB",
         double(*bytes) / 1e6, 32,
         fmt::format("{:.1f} s; the scores alone would take {:.1f} GB", seconds,
                     4.0 * shape.tokens * shape.tokens / 1e9)});
  }

  // keep: -1 all keys, 0 causal, W > 0 the W latest keys.
  struct Masked {
    int tokens, keep;
  };
  struct Work {
    std::int64_t tiles;
    std::vector<double> seconds;
  };

  void check_work(const std::string& what, Masked part, Masked whole, double target) {
    const Shape shape{DType::f32, 1, part.tokens > 8192 ? 1 : 4, part.tokens, 64, false};
    DenseProblem dense(shape, threads_);
    const auto make = [&](Masked m) {
      Problem problem = dense.problem;
      if (m.keep == 0) problem.options.mask = causal();
      if (m.keep > 0) problem.options.mask = causal() && window(m.keep - 1);
      return plan(problem);
    };
    Plan plans[] = {make(part), make(whole)};
    Work work[2] = {};
    for (int turn = 0; turn < 5; ++turn)
      for (int i = 0; i < 2; ++i) {
        TileCounts visited;
        RunOptions run;
        run.visited = &visited;
        work[i].seconds.push_back(seconds_of([&] { plans[i].run(dense.problem.tensors, run); }));
        work[i].tiles = visited.full + visited.partial;
      }
    report_.checks.push_back({what + ", tiles touched", "",
                              double(work[0].tiles) / double(work[1].tiles), target,
                              fmt::format("{} of {}", work[0].tiles, work[1].tiles)});
    const double a = median(work[0].seconds), b = median(work[1].seconds);
    report_.checks.push_back({what + ", time", "", a / b, target,
                              fmt::format("{:.1f} ms of {:.1f} ms", a * 1e3, b * 1e3)});
  }

  void check_plan_time() {
    const RaggedDescription ragged(256, 1024);
    std::vector<double> seconds;
    for (int i = 0; i < 2001; ++i) seconds.push_back(seconds_of([&] { plan(ragged.problem); }));
    const double best = *std::min_element(seconds.begin(), seconds.end());
    report_.checks.push_back({"plan() of 256 ragged sequences", "us", median(seconds) * 1e6, 50,
                              fmt::format("median of 2001, best {:.1f} us", best * 1e6)});
  }

  const CpuBenchOptions& options_;
  const BenchProgress& progress_;
  const int threads_;
  CpuBenchReport report_;
};

}  // namespace

std::string ShapeRow::fastest_peer() const {
  const auto fastest = std::min_element(
      peers.begin(), peers.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return fastest == peers.end() ? "" : fastest->first;
}

double ShapeRow::ratio() const {
  const std::string peer = fastest_peer();
  return peer.empty() ? 0 : peers.at(peer) / seconds;
}

CpuBenchReport bench_cpu(const CpuBenchOptions& options, const BenchProgress& progress) {
  return Bench(options, progress).run();
}

double geometric_mean(const std::vector<ShapeRow>& rows,
                      const std::function<double(const ShapeRow&)>& f) {
  double sum = 0;
  int count = 0;
  for (const ShapeRow& row : rows) {
    const double x = f(row);
    if (!(x > 0)) continue;
    sum += std::log(x);
    ++count;
  }
  return count == 0 ? 0 : std::exp(sum / count);
}

}  // namespace tilefold::bench
