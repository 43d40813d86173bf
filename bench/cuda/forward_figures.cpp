#include "bench/cuda/forward_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "bench/cuda/device.hpp"
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
    const std::int64_t tokens = [&] {
      std::int64_t sum = 0;
      for (int length : point.lengths) sum += length;
      return sum;
    }();
    const int bytes = bytes_of(point.dtype);
    const std::int64_t queries = tokens * point.query_heads * point.head_dim;
    const std::int64_t keys = tokens * point.kv_heads * point.head_dim;
    for (const std::int64_t count : {queries, keys, keys, queries}) {
      memory_.emplace_back(std::size_t(count * bytes));
      if (memory_.size() < 4)
        fill_normal(memory_.back().data(), element_of(point.dtype), count, ++seed);
    }
    const Device device = Device::cuda();
    const auto batch = std::int64_t(point.lengths.size());
    const auto extents = [&](int heads) {
      return point.ragged() ? Extents{tokens, heads, point.head_dim}
                            : Extents{batch, tokens / batch, heads, point.head_dim};
    };
    Tensors& t = problem.tensors;
    t.query = TensorView(memory_[0].data(), point.dtype, extents(point.query_heads), device);
    t.key = TensorView(memory_[1].data(), point.dtype, extents(point.kv_heads), device);
    t.value = TensorView(memory_[2].data(), point.dtype, extents(point.kv_heads), device);
    t.out = OutputView(memory_[3].data(), point.dtype, extents(point.query_heads), device);
    if (point.ragged()) {
      borders_ = {0};
      for (int length : point.lengths) borders_.push_back(borders_.back() + length);
      t.cu_seqlens_q = t.cu_seqlens_k =
          TensorView(borders_.data(), DType::i32, {std::int64_t(borders_.size())});
    }
    problem.options.backend = Backend::cuda;
    if (point.causal) problem.options.mask = causal();
    if (point.window > 0) problem.options.mask = causal() && window(point.window);
  }
  Case(const Case&) = delete;

  Problem problem;

 private:
  std::vector<DeviceMemory> memory_;
  std::vector<std::int32_t> borders_;
};

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

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

std::vector<double> launch_times(const ForwardOptions& options, Launching launching,
                                 const std::function<void(int)>& launch) {
  if (launching == Launching::queued)
    return queued_milliseconds(WarmUp::three, options.runs, launch);
  std::vector<double> times;
  for (int i = 0; i < options.runs; ++i)
    times.push_back(queued_milliseconds(i == 0 ? WarmUp::three : WarmUp::none, 1, launch)[0]);
  return times;
}

ForwardFigure measure(const ForwardPoint& point, const ForwardOptions& options) {
  ForwardFigure figure;
  figure.point = point;
  figure.launching = point.set == "gqa" ? Launching::single : Launching::queued;
  try {
    const Case first(point, 1), second(point, 101);
    const Case* cases[sets_in_rotation] = {&first, &second};
    Plan planned = plan(first.problem);
    planned.prepare();
    figure.kernel = planned.kernel();
    const auto launch = [&](int run) {
      planned.run(cases[run % sets_in_rotation]->problem.tensors);
    };
    std::vector<double> times = launch_times(options, figure.launching, launch);
    std::sort(times.begin(), times.end());
    figure.median_ms = times[times.size() / 2];
    figure.fastest_ms = times.front();
    figure.slowest_ms = times.back();
    figure.plan_microseconds = host_microseconds(20, [&] { plan(first.problem); });
    figure.run_microseconds = host_microseconds(20, [&] { launch(0); });
    wait_for_device();
  } catch (const Error& error) {
    figure.refusal = error.what();
  }
  return figure;
}

void add_grid(const ForwardOptions& options, std::vector<ForwardPoint>& points) {
  constexpr int tokens = 16384, hidden = 2048;
  for (int d : options.head_dims)
    for (bool causal : {false, true})
      for (int length : options.lengths)
        points.push_back({"grid",
                          std::vector<int>(std::size_t(std::max(1, tokens / length)), length),
                          hidden / d, hidden / d, d, causal, 0, options.dtype});
}

}  // namespace

bool ForwardPoint::ragged() const {
  return std::any_of(lengths.begin(), lengths.end(), [&](int l) { return l != lengths[0]; });
}

double ForwardPoint::flops() const {
  double pairs = 0;
  for (double n : lengths) {
    double visible = causal ? n * n / 2 : n * n;
    if (window > 0) {
      const double whole = std::min<double>(n, window + 1);
      visible = whole * (whole + 1) / 2 + (n - whole) * whole;
    }
    pairs += visible;
  }
  return 4 * pairs * query_heads * head_dim;
}

std::vector<int> log_uniform_lengths(int tokens, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<int> lengths;
  for (int left = tokens; left > 0; left -= lengths.back()) {
    const double u = double(random() >> 11) * 0x1p-53;
    lengths.push_back(std::min(left, int(16 * std::pow(1024.0, u))));
  }
  return lengths;
}

std::vector<ForwardPoint> forward_points(const ForwardOptions& options) {
  std::vector<ForwardPoint> points;
  const DType dtype = options.dtype;
  for (const std::string& set : options.sets) {
    if (set == "grid") add_grid(options, points);
    if (set == "gqa")
      for (int heads : {32, 64})
        for (const auto& [batch, length] : {std::pair{1, 8192}, {16, 1024}, {64, 1024}})
          points.push_back(
              {"gqa", std::vector<int>(std::size_t(batch), length), heads, 8, 128, true, 0, dtype});
    if (set == "window")
      for (int window : {0, 4095})
        points.push_back({"window", {32768}, 16, 16, 128, true, window, dtype});
    if (set == "ragged")
      for (bool causal : {false, true})
        points.push_back(
            {"ragged", log_uniform_lengths(65536, 2026), 16, 16, 128, causal, 0, dtype});
  }
  return points;
}

std::vector<ForwardFigure> measure_forward(
    const ForwardOptions& options,
    const std::function<void(double, const std::string&)>& progress) {
  describe_device();
  const std::vector<ForwardPoint> points = forward_points(options);
  std::vector<ForwardFigure> figures;
  for (std::size_t i = 0; i < points.size(); ++i) {
    progress(double(i) / double(points.size()),
             fmt::format("D {} length {}{}", points[i].head_dim, points[i].lengths[0],
                         points[i].causal ? " causal" : ""));
    figures.push_back(measure(points[i], options));
  }
  return figures;
}

std::string forward_csv_header() {
  return "peer,mode,op,dtype,batch,heads_q,heads_kv,hdim,seqlen_q,seqlen_k,causal,window,ms,"
         "fastest_ms,slowest_ms,rate,unit,kernel,plan_us,run_us\n";
}

std::string forward_csv_row(const ForwardFigure& f) {
  const ForwardPoint& p = f.point;
  if (!f.refusal.empty())
    return fmt::format("# D {} length {}: {}\n", p.head_dim, p.lengths[0], f.refusal);
  const int length = p.ragged() ? 0 : p.lengths[0];
  return fmt::format(
      "tilefold,{},{},{},{},{},{},{},{},{},{},{},{:.4f},{:.4f},{:.4f},{:.1f},TFLOPS,{},{:.1f},{:."
      "1f}\n",
      f.launching == Launching::queued ? "queued" : "single",
      p.ragged() ? "forward_ragged" : "forward", tilefold::name(p.dtype), p.lengths.size(),
      p.query_heads, p.kv_heads, p.head_dim, length, length, int(p.causal), p.window, f.median_ms,
      f.fastest_ms, f.slowest_ms, f.tflops(), f.kernel, f.plan_microseconds, f.run_microseconds);
}

std::string forward_table(const std::vector<ForwardFigure>& figures) {
  std::string text = fmt::format("{:>4} {:>6} {:>6} {:>5} {:>6} {:>9} {:>8}  {}\n", "D", "heads",
                                 "batch", "mask", "length", "ms", "TFLOPS", "kernel");
  for (const ForwardFigure& f : figures) {
    const ForwardPoint& p = f.point;
    text += fmt::format("{:>4} {:>6} {:>6} {:>5} {:>6} {:>9.4f} {:>8.1f}  {}\n", p.head_dim,
                        fmt::format("{}/{}", p.query_heads, p.kv_heads), p.lengths.size(),
                        p.window > 0 ? "win"
                        : p.causal   ? "causal"
                                     : "full",
                        p.ragged() ? std::string("ragged") : std::to_string(p.lengths[0]),
                        f.median_ms, f.tflops(), f.refusal.empty() ? f.kernel : f.refusal);
  }
  return text;
}

}  // namespace tilefold::bench
