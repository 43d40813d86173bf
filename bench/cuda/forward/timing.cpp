#include "bench/cuda/forward/timing.hpp"

#include "bench/cuda/forward/problem.hpp"
#include "bench/timing.hpp"

namespace tilefold::bench::forward {

namespace {

constexpr int tokens = 16384, hidden = 2048, runs = 25;
constexpr int lengths[] = {512, 1024, 2048, 4096, 8192, 16384};

double median_milliseconds(const Kernel& kernel, const Shape& shape, int together) {
  const bool bf16 = kernel.config.type == cuda::HalfType::bf16;
  const auto element = bf16 ? cuda::ladder::Element::bfloat16 : cuda::ladder::Element::float16;
  std::vector<Bound> sets;  // 64 MB each of Q, K, V and O: far beyond 50 MB of L2
  for (int i = 0; i < 2; ++i) sets.emplace_back(shape, kernel.config);
  if (together > 0)
    for (Bound& set : sets) set.params.shape.runs_together = together;
  std::uint64_t seed = 1;
  for (const Bound& set : sets)
    for (const auto* x : {&set.query, &set.key, &set.value})
      fill_normal(x->data(), element, std::int64_t(x->size()), ++seed << 32);
  return median(queued_milliseconds(
      WarmUp::three, runs, [&](int run) { launch(kernel, sets[std::size_t(run) % sets.size()]); }));
}

}  // namespace

void print_time_heading() {
  std::printf("%-41s", "TFLOPS");
  for (int length : lengths) std::printf(" %6d", length);
  std::printf("\n");
}

void time_kernel(const Kernel& kernel, const TimeOptions& options) {
  prepare(kernel);
  const int d = kernel.config.head_dim, heads = std::max(1, hidden / d);
  for (int causal = 0; causal < 2; ++causal) {
    if (options.causal >= 0 && options.causal != causal) continue;
    std::printf("%-34s %-6s", kernel.name.c_str(), causal ? "causal" : "dense");
    for (int length : lengths) {
      if (options.sequence != 0 && options.sequence != length) continue;
      Shape s{tokens / length, length, length, heads, heads, d, kernel.config.value_dim};
      if (causal) s.high = 0;
      const double ms = median_milliseconds(kernel, s, options.together),
                   rate = s.flops() / ms / 1e9;
      std::printf(" %6.1f", rate);
      std::fflush(stdout);
      if (options.csv)
        std::fprintf(options.csv, "%s,%d,%d,%d,%d,%d,%.5f,%.1f\n", kernel.name.c_str(), s.batch,
                     heads, d, length, causal, ms, rate);
    }
    std::printf("\n");
  }
}

}  // namespace tilefold::bench::forward
