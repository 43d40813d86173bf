#include "bench/cuda/forward/check.hpp"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

#include "bench/cuda/forward/problem.hpp"
#include "tilefold/dtype.hpp"

namespace tilefold::bench::forward {

namespace {

using cuda::HalfType;
using cuda::RangeMask;
using cuda::sm80::ForwardConfig;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::uint16_t nan_bits = 0xffff;  // in both types

float widen(HalfType type, std::uint16_t bits) {
  return type == HalfType::bf16 ? to_float(bfloat16{bits}) : to_float(float16{bits});
}
std::uint16_t narrow(HalfType type, float x) {
  return type == HalfType::bf16 ? round_to<bfloat16>(x).bits : round_to<float16>(x).bits;
}

/// Inputs as the kernel sees them, and what it wrote.
struct HostProblem {
  Shape shape;
  HalfType type;
  std::vector<float> query, key, value, out, lse;

  const float* query_row(int b, int i, int h) const {
    return &query[(query_index(b, i) + std::size_t(h)) * std::size_t(shape.head_dim)];
  }
  const float* out_row(int b, int i, int h) const {
    return &out[(query_index(b, i) + std::size_t(h)) * std::size_t(shape.value_dim)];
  }
  const float* key_row(int b, int j, int h) const {
    return &key[key_index(b, j, h) * std::size_t(shape.head_dim)];
  }
  const float* value_row(int b, int j, int h) const {
    return &value[key_index(b, j, h) * std::size_t(shape.value_dim)];
  }
  float lse_at(int b, int i, int h) const {
    return lse[std::size_t((b * shape.query_heads + h) * shape.query_length + i)];
  }

 private:
  std::size_t query_index(int b, int i) const {
    return (std::size_t(b) * std::size_t(shape.query_length) + std::size_t(i)) *
           std::size_t(shape.query_heads);
  }
  std::size_t key_index(int b, int j, int h) const {
    return shape.key_row(b, j) * std::size_t(shape.kv_heads) + std::size_t(h);
  }
};

/// Scores of one row in float64; -inf where the mask hides the key.
std::vector<double> row_scores(const HostProblem& p, int b, int i, int h, int kv_head) {
  const Shape& s = p.shape;
  std::vector<double> scores(std::size_t(s.key_length), -infinity);
  const float* const q = p.query_row(b, i, h);
  for (int j = 0; j < s.key_length; ++j) {
    const long long distance = 0LL + j - i - (s.key_length - s.query_length);
    if (distance < s.low || distance > s.high) continue;
    const float* const k = p.key_row(b, j, kv_head);
    double x = 0;
    for (int c = 0; c < s.head_dim; ++c) x += double(q[c]) * k[c];
    x *= s.actual_scale();
    scores[std::size_t(j)] = s.cap != 0 ? s.cap * std::tanh(x / s.cap) : x;
  }
  return scores;
}

/// Worst differences from float64 over the rows looked at.
struct Errors {
  double worst = 0, largest = 0, lse = 0;
  long bad = 0;  // not finite where it must be, or the reverse

  void take_lse(double wanted, float got) {
    if (std::isinf(wanted))
      bad += got != -std::numeric_limits<float>::infinity();
    else if (!std::isfinite(got))
      ++bad;
    else
      lse = std::max(lse, std::fabs(got - wanted) / std::max(1.0, std::fabs(wanted)));
  }
};

void check_row(const HostProblem& p, int b, int h, int i, Errors& e) {
  const Shape& s = p.shape;
  const int kv_head = h / (s.query_heads / s.kv_heads);
  std::vector<double> weights = row_scores(p, b, i, h, kv_head);
  double top = s.sinks ? double(Shape::sink) : -infinity;
  for (double x : weights) top = std::max(top, x);
  double sum = s.sinks ? std::exp(Shape::sink - top) : 0;
  for (double& x : weights) sum += x = top == -infinity ? 0.0 : std::exp(x - top);
  std::vector<double> exact(std::size_t(s.value_dim), 0.0);
  for (int j = 0; j < s.key_length; ++j) {
    const double weight = weights[std::size_t(j)] / sum;
    if (weights[std::size_t(j)] == 0) continue;  // its value may be NaN
    const float* const v = p.value_row(b, j, kv_head);
    for (std::size_t c = 0; c < exact.size(); ++c) exact[c] += weight * v[c];
  }
  const float* const out = p.out_row(b, i, h);
  for (std::size_t c = 0; c < exact.size(); ++c) {
    e.worst = std::max(e.worst, std::fabs(out[c] - exact[c]));
    e.largest = std::max(e.largest, std::fabs(exact[c]));
  }
  e.take_lse(top + std::log(sum), p.lse_at(b, i, h));
}

/// Rows of the key tensor that some query may read.
std::vector<bool> owned_rows(const Shape& s) {
  std::vector<bool> owned(s.key_rows(), false);
  for (int b = 0; b < s.batch; ++b)
    for (int j = 0; j < s.key_length; ++j)
      if (s.low == RangeMask::unbounded_low || j >= s.low + s.key_length - s.query_length)
        owned[s.key_row(b, j)] = true;
  return owned;
}

/// Normal numbers everywhere but in key rows that nobody may read: those hold NaN.
HostProblem make_inputs(const Shape& s, HalfType type, Bound& b, std::uint64_t seed) {
  HostProblem p{s, type, {}, {}, {}, {}, {}};
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const std::vector<bool> owned = owned_rows(s), every(1, true);
  const auto fill = [&](DeviceArray<std::uint16_t>& to, float spread,
                        const std::vector<bool>& rows) {
    std::vector<std::uint16_t> bits(to.size());
    std::vector<float> x(to.size());
    const std::size_t row = rows.empty() ? 1 : std::max<std::size_t>(1, bits.size() / rows.size());
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const std::uint16_t drawn = narrow(type, spread * normal(random));
      bits[i] = rows[i / row] ? drawn : nan_bits;
      x[i] = widen(type, bits[i]);
    }
    to.upload(bits);
    return x;
  };
  p.query = fill(b.query, s.spread, every);
  p.key = fill(b.key, 1, owned);
  p.value = fill(b.value, 1, owned);
  return p;
}

/// The output of two runs on poisoned memory; nothing where they differ.
std::vector<std::uint16_t> repeated_output(const Kernel& kernel, Bound& b) {
  std::vector<std::uint16_t> first;
  for (int run = 0; run < 2; ++run) {
    b.out.poison(), b.lse.poison();
    b.part_max.poison(), b.part_sum.poison(), b.part_out.poison();
    launch(kernel, b);
    wait_for_device();
    std::vector<std::uint16_t> bits = b.out.download();
    if (run == 1 && bits != first) return {};
    first = std::move(bits);
  }
  return first;
}

/// All rows of small problems, some of large ones.
Errors errors_of(const HostProblem& p, std::uint64_t seed) {
  const Shape& s = p.shape;
  const long rows = long(s.batch) * s.query_heads * s.query_length;
  const long affordable = 3000000L / std::max(1, s.key_length * s.head_dim / 64);
  const long wanted = std::min(rows, std::max(48L, affordable));
  Errors e;
  std::mt19937_64 random(seed);
  for (long n = 0; n < wanted; ++n) {
    const long row = wanted == rows ? n : long(random() % std::uint64_t(rows));
    check_row(p, int(row / s.query_length / s.query_heads),
              int(row / s.query_length % s.query_heads), int(row % s.query_length), e);
  }
  for (float x : p.out) e.bad += !std::isfinite(x);
  return e;
}

std::vector<float> widened(const std::vector<std::uint16_t>& words, const Shape& s, HalfType type) {
  std::vector<float> out;
  if (s.wide_output) {
    out.resize(words.size() / 2);
    std::memcpy(out.data(), words.data(), words.size() * sizeof(std::uint16_t));
  } else {
    for (std::uint16_t x : words) out.push_back(widen(type, x));
  }
  return out;
}

/// Every sequence is of one length: all heads keep their weights in two parts, or none does.
bool splits_weights(const Bound& b, const Shape& s) {
  return 1LL * s.query_length * s.value_dim < b.params.exact_below.outputs;
}

/// Weights in two parts hold 16 bits or more: a float32 output shows that, a 16-bit one does not.
bool check_shape(const Kernel& kernel, const Shape& s, std::uint64_t seed) {
  const HalfType type = kernel.config.type;
  Bound b(s, kernel.config);
  HostProblem p = make_inputs(s, type, b, seed);
  const std::vector<std::uint16_t> bits = repeated_output(kernel, b);
  const bool repeatable = bits.size() == b.out.size();
  Errors e;
  if (repeatable) {
    p.out = widened(bits, s, type);
    p.lse = b.lse.download();
    e = errors_of(p, seed + 1);
  }
  const double unit = type == HalfType::bf16 ? 1.0 / 256 : 1.0 / 2048;
  const double allowed =
      s.wide_output && splits_weights(b, s) ? std::max(unit / 64, 4e-5) : 2 * unit;
  const bool right = repeatable && e.bad == 0 && e.worst <= allowed * std::max(e.largest, 1e-2) &&
                     e.lse <= 2e-5 * std::max(1.0f, s.spread);
  if (!right)
    std::printf(
        "FAIL %s B%d Sq%d Sk%d Hq%d Hkv%d D%d Dv%d low %d high %d scale %g spread %g page %d "
        "split %d cap %g f32 %d: worst %.3g of %.3g, lse %.3g, non-finite %ld, repeatable %d\n",
        kernel.name.c_str(), s.batch, s.query_length, s.key_length, s.query_heads, s.kv_heads,
        s.head_dim, s.value_dim, s.low, s.high, s.scale, s.spread, s.page_size, s.split_keys, s.cap,
        int(s.wide_output), e.worst, e.largest, e.lse, e.bad, int(repeatable));
  return right;
}

std::vector<Shape> shapes_for(const ForwardConfig& c) {
  const int d = c.head_dim, v = c.value_dim;
  constexpr int low = RangeMask::unbounded_low, high = RangeMask::unbounded_high;
  std::vector<Shape> all = {
      {1, 1, 1, 1, 1, d, v},
      {2, 127, 127, 2, 2, d, v},
      {1, 129, 200, 3, 3, d, v, low, 0},
      {1, 200, 129, 2, 2, d, v, low, 0},
      {2, 333, 333, 4, 4, d, v, low, 0},
      {2, 257, 500, 4, 2, d, v, -100, 0},
      {1, 300, 700, 2, 1, d, v, -64, 31},
      {3, 5, 1000, 8, 2, d, v, low, 0},
      {2, 1, 2000, 8, 1, d, v, low, high, 0, 1, 0, 256},
      {2, 7, 1500, 4, 2, d, v, -600, 0, 0, 1, 0, 512},
      {2, 100, 300, 2, 2, d, v, low, 0, -0.2f},
      {1, 100, 300, 2, 2, d, v, low, 0, 0, 8},
      {1, 64, 512, 2, 2, d, v, low, 0, 4096.0f, 64},
      {1, 100, 300, 2, 2, d - 8, v - 8, low, 0},
      {2, 4, 0, 2, 2, d, v},
      {1, 1024, 1024, 2, 2, d, v, low, 0},
  };
  Shape sink = all[4];
  sink.sinks = true;
  all.push_back(sink);
  for (Shape few : {Shape{4, 3, 5, 4, 2, d, v}, Shape{3, 5, 1000, 8, 2, d, v, low, 0},
                    Shape{2, 1, 2000, 8, 1, d, v, low, high, 0, 1, 0, 256},
                    Shape{2, 7, 150, 4, 2, d - 8, v - 8, -64, 0}}) {
    few.wide_output = true;
    all.push_back(few);
  }
  if (c.keys == cuda::sm80::KeyHome::strided) return all;
  for (int page : {1, 16, 7, 256}) {
    Shape paged = all[5];
    paged.page_size = page;
    all.push_back(paged);
  }
  Shape capped = all[4];
  capped.cap = 2.0f, capped.page_size = 16;
  all.push_back(capped);
  return all;
}

}  // namespace

bool check(const Kernel& kernel) {
  prepare(kernel);
  bool right = true;
  std::uint64_t seed = 1;
  for (const Shape& s : shapes_for(kernel.config)) right &= check_shape(kernel, s, seed += 7);
  std::printf("%s %s\n", right ? "ok  " : "FAIL", kernel.name.c_str());
  return right;
}

}  // namespace tilefold::bench::forward
