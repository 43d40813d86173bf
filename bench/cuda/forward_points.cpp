// Which shapes `tilefold bench forward` measures, and what they cost.
#include <algorithm>
#include <cmath>
#include <random>

#include "bench/cuda/formulas.hpp"
#include "bench/cuda/forward_figures.hpp"
#include "bench/forward_grid.hpp"

namespace tilefold::bench {

namespace {

void add_grid(const ForwardOptions& options, std::vector<ForwardPoint>& points) {
  for (int d : options.head_dims)
    for (bool causal : {false, true})
      for (int length : options.lengths)
        points.push_back({"grid",
                          std::vector<int>(std::size_t(std::max(1, grid_tokens / length)), length),
                          grid_hidden / d, grid_hidden / d, d, causal, 0, options.dtype});
}

/// Each formula, and the built-in causal mask that they are compared with.
void add_formulas(const ForwardOptions& options, std::vector<ForwardPoint>& points) {
  for (int d : {64, 128})
    for (int length : {2048, 8192}) {
      const std::vector<int> lengths(std::size_t(grid_tokens / length), length);
      const int heads = grid_hidden / d;
      points.push_back({"formulas", lengths, heads, heads, d, true, 0, options.dtype});
      for (const char* name : formula_names()) {
        points.push_back({"formulas", lengths, heads, heads, d, false, 0, options.dtype});
        points.back().formula = name;
      }
    }
}

/// Formulas built at run time, and the built-in causal mask; the tree with 64 queries over 4160
/// keys.
void add_run_time(const ForwardOptions& options, std::vector<ForwardPoint>& points) {
  constexpr int length = 8192, tree_keys = 4160, tree_queries = 64;
  for (int d : {64, 128}) {
    const int heads = grid_hidden / d;
    const std::vector<int> lengths(std::size_t(grid_tokens / length), length);
    points.push_back({"run-time", lengths, heads, heads, d, true, 0, options.dtype});
    for (const std::string name : text_formula_names()) {
      points.push_back({"run-time", lengths, heads, heads, d, false, 0, options.dtype});
      points.back().formula = name;
      if (name != "text tree") continue;
      points.back().lengths.assign(32, tree_keys);
      points.back().queries = tree_queries;
    }
  }
}

/// Keys and values of a point, at most: two sets of tensors stand in memory.
constexpr double most_choice_bytes = 8e9;

void add_choice(const ForwardOptions& options, std::vector<ForwardPoint>& points) {
  constexpr int kv_heads = 8;
  for (int dim : options.head_dims)
    for (int keys : {128, 1024, 8192, 131072})
      for (int batch : {1, 16, 256})
        for (int group : {1, 8})
          for (int queries : {1, 4, 16, 64}) {
            if (4.0 * batch * keys * kv_heads * dim > most_choice_bytes) continue;
            for (const char* family : {"sm90", "sm80", "any"})
              points.push_back({"choice", std::vector<int>(std::size_t(batch), keys),
                                kv_heads * group, kv_heads, dim, true, 0, options.dtype, queries,
                                family});
          }
}

}  // namespace

bool of_choice(const ForwardPoint& point) { return point.set == "choice"; }

bool ForwardPoint::ragged() const {
  return std::any_of(lengths.begin(), lengths.end(), [&](int l) { return l != lengths[0]; });
}

double ForwardPoint::flops() const {
  double pairs = 0;
  if (set == "formulas" || (set == "run-time" && queries == 0)) {
    const Mask seen = causal ? tilefold::causal() : named_formula(formula, lengths[0]).mask;
    pairs = double(lengths.size()) * 128 * 128 * double(visible_tiles(seen, lengths[0]));
    return 4 * pairs * query_heads * head_dim;
  }
  for (double n : lengths) {
    const double rows = queries_of(int(n));
    double visible = causal ? rows * n - rows * rows / 2 : rows * n;
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
    if (set == "formulas") add_formulas(options, points);
    if (set == "run-time") add_run_time(options, points);
    if (set == "gqa")
      for (int heads : {32, 64})
        for (const auto& [batch, length] : {std::pair{1, 8192}, {16, 1024}, {64, 1024}})
          points.push_back(
              {"gqa", std::vector<int>(std::size_t(batch), length), heads, 8, 128, true, 0, dtype});
    if (set == "choice") add_choice(options, points);
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

}  // namespace tilefold::bench
