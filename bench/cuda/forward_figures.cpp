#include "bench/cuda/forward_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/cuda/device.hpp"
#include "bench/cuda/formulas.hpp"
#include "bench/cuda/ladder_bench.hpp"
#include "bench/timing.hpp"
#include "tests/support/only_kernels.hpp"
#include "tilefold/attention.hpp"
#include "tilefold/error.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::bench {

namespace {

constexpr int sets_in_rotation = 2;

cuda::ladder::Element element_of(DType type) {
  return type == DType::bf16  ? cuda::ladder::Element::bfloat16
         : type == DType::f16 ? cuda::ladder::Element::float16
                              : cuda::ladder::Element::float32;
}

/// Device tensors of one point, and the problem over them.
class Case {
 public:
  Case(const ForwardPoint& point, std::uint64_t seed) {
    std::int64_t tokens = 0, rows = 0;
    for (int length : point.lengths) tokens += length, rows += point.queries_of(length);
    const int bytes = bytes_of(point.dtype);
    const std::int64_t queries = rows * point.query_heads * point.head_dim;
    const std::int64_t keys = tokens * point.kv_heads * point.head_dim;
    for (const std::int64_t count : {queries, keys, keys, queries}) {
      memory_.emplace_back(std::size_t(count * bytes));
      if (memory_.size() < 4)
        fill_normal(memory_.back().data(), element_of(point.dtype), count, ++seed);
    }
    const Device device = Device::cuda();
    const auto batch = std::int64_t(point.lengths.size());
    const auto extents = [&](std::int64_t all, int heads) {
      return point.ragged() ? Extents{all, heads, point.head_dim}
                            : Extents{batch, all / batch, heads, point.head_dim};
    };
    Tensors& t = problem.tensors;
    t.query = TensorView(memory_[0].data(), point.dtype, extents(rows, point.query_heads), device);
    t.key = TensorView(memory_[1].data(), point.dtype, extents(tokens, point.kv_heads), device);
    t.value = TensorView(memory_[2].data(), point.dtype, extents(tokens, point.kv_heads), device);
    t.out = OutputView(memory_[3].data(), point.dtype, extents(rows, point.query_heads), device);
    if (point.ragged()) {
      borders_ = {0};
      for (int length : point.lengths) borders_.push_back(borders_.back() + length);
      t.cu_seqlens_q = t.cu_seqlens_k =
          TensorView(borders_.data(), DType::i32, {std::int64_t(borders_.size())});
    }
    problem.options.backend = Backend::cuda;
    if (point.causal) problem.options.mask = causal();
    if (point.window > 0) problem.options.mask = causal() && window(point.window);
    if (point.formula.empty()) return;
    const NamedFormula formula = named_formula(point.formula, point.lengths[0]);
    problem.options.mask = formula.mask;
    problem.options.score = formula.score;
  }
  Case(const Case&) = delete;

  Problem problem;

 private:
  std::vector<DeviceMemory> memory_;
  std::vector<std::int32_t> borders_;
};

template <class Work> double host_microseconds(int runs, const Work& work) {
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  return median(times);
}

/// Single launches: the clock behind the last of them.
QueueFigures time_launches(const ForwardOptions& options, Launching launching,
                           const std::function<void(int)>& launch) {
  if (launching == Launching::queued) return run_queue(WarmUp::three, options.runs, launch);
  QueueFigures all;
  for (int i = 0; i < options.runs; ++i) {
    const QueueFigures one = run_queue(i == 0 ? WarmUp::three : WarmUp::none, 1, launch);
    all.milliseconds.push_back(one.milliseconds[0]);
    all.clock_mhz = one.clock_mhz;
  }
  return all;
}

/// Of the plan's kernel.
double predicted_milliseconds(const Plan& plan) {
  const auto explained = nlohmann::json::parse(plan.explain_json());
  for (const auto& predicted : explained.at("predicted"))
    if (predicted.at("kernel") == explained.at("kernel"))
      return 1e3 * predicted.at("seconds").get<double>();
  return 0;
}

ForwardFigure measure(const ForwardPoint& point, ForwardOptions options) {
  ForwardFigure figure;
  figure.point = point;
  const bool single = point.set == "gqa" || of_choice(point);
  figure.launching = single ? Launching::single : Launching::queued;
  std::optional<testing::OnlyKernels> only;
  if (!point.family.empty()) only.emplace(point.family);
  try {
    const Case first(point, 1), second(point, 101);
    const Case* cases[sets_in_rotation] = {&first, &second};
    wait_for_device();
    const auto start = std::chrono::steady_clock::now();
    Plan planned = plan(first.problem);
    planned.run(first.problem.tensors);
    wait_for_device();
    figure.first_result_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    figure.kernel = planned.kernel();
    figure.predicted_ms = predicted_milliseconds(planned);
    if (of_choice(point)) options.runs = timed_runs(figure.predicted_ms, options.runs);
    const auto launch = [&](int run) {
      planned.run(cases[run % sets_in_rotation]->problem.tensors);
    };
    const QueueFigures queue = time_launches(options, figure.launching, launch);
    const auto& times = queue.milliseconds;
    figure.median_ms = median(times);
    figure.fastest_ms = *std::min_element(times.begin(), times.end());
    figure.slowest_ms = *std::max_element(times.begin(), times.end());
    figure.clock_mhz = queue.clock_mhz;
    figure.plan_microseconds = host_microseconds(20, [&] { plan(first.problem); });
    figure.run_microseconds = host_microseconds(20, [&] { launch(0); });
    if (options.power) figure.power_watts = sustained_watts(figure.median_ms, launch);
    wait_for_device();
  } catch (const Error& error) {
    figure.refusal = error.what();
  }
  return figure;
}

}  // namespace

ForwardReport measure_forward(const ForwardOptions& options,
                              const std::function<void(double, const std::string&)>& progress,
                              const std::function<void(const ForwardReport&)>& measured) {
  require_device("bench forward");
  ForwardReport report{describe_device().name, {}};
  const std::vector<ForwardPoint> points = forward_points(options);
  for (std::size_t i = 0; i < points.size(); ++i) {
    progress(double(i) / double(points.size()),
             fmt::format("D {} length {}{} {}", points[i].head_dim, points[i].lengths[0],
                         points[i].causal ? " causal" : "", points[i].family));
    report.figures.push_back(measure(points[i], options));
    measured(report);
  }
  return report;
}

}  // namespace tilefold::bench
