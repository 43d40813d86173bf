// Checks and times the sm80 forward on one GPU, without the rest of the library.
//
//   forward_bench check [NAME..]            against float64 on the host; outputs poisoned
//   forward_bench time [NAME..] [--csv F] [--seq N] [--causal 0|1]
//   forward_bench list
//
// NAME picks candidates whose name contains it. Time: 16384 tokens, hidden size 2048, head
// dimensions 64, 128, 256, sequences 512 to 16384; launches queued behind a spinning kernel, median
// of 25, inputs taken in turn from sets that together exceed the L2 cache.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/kernels/merge.cuh"
#include "cuda/kernels/sm80/kernel.cuh"
#include "cuda/kernels/sm80/registry.hpp"

namespace {

using namespace tilefold::cuda;
using sm80::Choice;
using sm80::Formula;
using sm80::ForwardConfig;
using sm80::KeyHome;
using sm80::QueryHome;

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

template <class T> class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    require(cudaMalloc(&data_, std::max<std::size_t>(count, 1) * sizeof(T)), "cudaMalloc");
  }
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) {
    require(cudaMemcpy(data_, host.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "upload");
  }
  DeviceArray(DeviceArray&& other) noexcept : data_(other.data_), count_(other.count_) {
    other.data_ = nullptr;
  }
  DeviceArray(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  void poison() { require(cudaMemset(data_, 0xff, count_ * sizeof(T)), "poison"); }
  std::vector<T> download() const {
    std::vector<T> host(count_);
    require(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "download");
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// ---- candidates
// ------------------------------------------------------------------------------------

struct Candidate {
  std::string name;
  ForwardConfig config;
  void (*kernel)(ForwardParams);
};
std::vector<Candidate>& candidates() {
  static std::vector<Candidate> all;
  return all;
}

template <ForwardConfig c> void add(const char* remark) {
  const std::string query = c.query == QueryHome::registers ? "Qreg" : "Qsmem";
  const std::string name = "d" + std::to_string(c.head_dim) +
                           (c.head_dim == c.value_dim ? "" : "-" + std::to_string(c.value_dim)) +
                           "_" + std::to_string(c.tile_rows()) + "x" + std::to_string(c.tile_keys) +
                           "_w" + std::to_string(c.warps) + "_s" + std::to_string(c.stages) + "_" +
                           query + "_b" + std::to_string(c.blocks_per_sm) +
                           (c.type == HalfType::bf16 ? "" : "_f16") +
                           (c.formula == Formula::plain ? "" : "_formula") + remark;
  candidates().push_back({name, c, sm80::forward_kernel<Choice<c>>});
}

constexpr ForwardConfig plain(int d, int warps, int blocks, int keys, int stages, QueryHome query,
                              int per_sm) {
  return {HalfType::bf16, d,     d, warps, blocks, keys, stages, query, KeyHome::strided,
          Formula::plain, per_sm};
}

template <int... index> void add_registry(std::integer_sequence<int, index...>) {
  (add<sm80::registry(index)>("*"), ...);
}

// A star marks what the registry holds; the others are what it might hold.
void add_candidates() {
#ifndef TILEFOLD_BENCH_QUICK
  add_registry(std::make_integer_sequence<int, sm80::registry_size>{});
#endif
  constexpr QueryHome registers = QueryHome::registers, shared = QueryHome::shared;
  add<plain(64, 4, 2, 32, 3, registers, 3)>("");
  add<plain(64, 4, 2, 64, 3, registers, 2)>("");
  add<plain(64, 4, 2, 128, 2, shared, 2)>("");
  add<plain(64, 8, 2, 64, 2, registers, 1)>("");
  add<plain(64, 4, 1, 64, 2, registers, 4)>("");
  add<plain(128, 4, 2, 64, 1, shared, 2)>("");
  add<plain(128, 4, 2, 32, 3, shared, 2)>("");
  add<plain(128, 8, 2, 64, 2, shared, 1)>("");
  add<plain(128, 8, 1, 64, 2, registers, 1)>("");
  add<plain(128, 4, 1, 64, 2, registers, 2)>("");
  add<plain(256, 4, 1, 32, 2, registers, 2)>("");
  add<plain(256, 4, 1, 32, 2, shared, 2)>("");
  add<plain(256, 8, 1, 64, 2, shared, 1)>("");
  add<plain(256, 8, 1, 32, 3, registers, 1)>("");
}

// ---- problems
// --------------------------------------------------------------------------------------

constexpr int open_low = RangeMask::unbounded_low, open_high = RangeMask::unbounded_high;

struct Shape {
  int batch, query_length, key_length, query_heads, kv_heads, head_dim, value_dim;
  int low = open_low, high = open_high;  // range mask; causal is high = 0
  float scale = 0;                       // 0: 1 / sqrt(head_dim)
  float spread = 1;                      // of Q
  int page_size = 0;                     // 0: dense
  int split_keys = 0;
  float cap = 0;  // softcap; needs a formula kernel
  bool sinks = false;

  bool causal() const { return high == 0; }
  float actual_scale() const { return scale != 0 ? scale : float(1 / std::sqrt(double(head_dim))); }
  double flops() const {
    const double pairs = causal() && query_length == key_length
                             ? 0.5 * query_length * double(key_length)
                             : double(query_length) * key_length;
    return 2.0 * batch * query_heads * pairs * (head_dim + value_dim);
  }
};

float widen(HalfType type, std::uint16_t bits) {
  if (type == HalfType::bf16) {
    const std::uint32_t wide = std::uint32_t(bits) << 16;
    float x;
    std::memcpy(&x, &wide, 4);
    return x;
  }
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float magnitude = exponent == 31  ? (mantissa ? NAN : INFINITY)
                          : exponent == 0 ? std::ldexp(float(mantissa), -24)
                                          : std::ldexp(float(1024 + mantissa), exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}
std::uint16_t narrow(HalfType type, float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if (type == HalfType::bf16) return std::uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  const std::uint16_t sign = std::uint16_t(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(x);
  if (magnitude < 6.1e-5f) return std::uint16_t(sign | std::lrint(std::ldexp(magnitude, 24)));
  int exponent;
  const float fraction = std::frexp(magnitude, &exponent);  // [0.5, 1)
  return std::uint16_t(sign |
                       (((exponent + 14) << 10) + std::lrint(std::ldexp(fraction, 11)) - 1024));
}

__global__ void fill_normal(std::uint16_t* x, std::size_t n, std::uint64_t seed) {
  for (std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x; i < n;
       i += std::size_t(gridDim.x) * blockDim.x) {
    std::uint64_t z = (i + 1) * 0x9E3779B97F4A7C15ull + seed * 0xD1B54A32D192ED03ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull, z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    const float u = (std::uint32_t(z) + 1.0f) * 2.3283064e-10f;
    const float w = std::uint32_t(z >> 32) * 2.3283064e-10f;
    x[i] = element::narrow_bf16(sqrtf(-2.f * logf(fminf(u, 1.f))) * cospif(2.f * w));
  }
}

/// Tensors of one problem on the device and the parameters that point at them.
struct Bound {
  DeviceArray<std::uint16_t> query, key, value, out;
  DeviceArray<float> lse, part_max, part_sum, part_out, sinks;
  DeviceArray<SequenceInfo> sequences;
  DeviceArray<int> pages;
  ForwardParams params{};

  Bound(const Shape& s, const ForwardConfig& c)
      : query(std::size_t(s.batch) * s.query_length * s.query_heads * s.head_dim),
        key(key_rows(s) * std::size_t(s.kv_heads * s.head_dim)),
        value(key_rows(s) * std::size_t(s.kv_heads * s.value_dim)),
        out(std::size_t(s.batch) * s.query_length * s.query_heads * s.value_dim),
        lse(std::size_t(s.batch) * s.query_length * s.query_heads),
        part_max(parts(s, c) * c.tile_rows()),
        part_sum(parts(s, c) * c.tile_rows()),
        part_out(parts(s, c) * c.tile_rows() * s.value_dim),
        sinks(std::vector<float>(std::size_t(s.query_heads), 1.5f)),
        sequences(infos(s)),
        pages(page_table(s)) {
    describe(s, c);
  }

  static int pages_a_sequence(const Shape& s) {
    return (s.key_length + s.page_size - 1) / s.page_size;
  }
  static std::size_t key_rows(const Shape& s) {
    return s.page_size == 0 ? std::size_t(s.batch) * s.key_length
                            : std::size_t(s.batch * pages_a_sequence(s) + 1) * s.page_size;
  }
  /// Sequence b's page p is the pool's page 1 + (p * batch + batch - 1 - b): page 0 belongs to
  /// nobody.
  static std::vector<int> page_table(const Shape& s) {
    std::vector<int> ids(1, -1);
    if (s.page_size == 0) return ids;
    ids.clear();
    for (int b = 0; b < s.batch; ++b)
      for (int p = 0; p < pages_a_sequence(s); ++p)
        ids.push_back(1 + p * s.batch + s.batch - 1 - b);
    return ids;
  }
  static std::size_t key_row(const Shape& s, int b, int j) {
    if (s.page_size == 0) return std::size_t(b) * s.key_length + j;
    return std::size_t(1 + j / s.page_size * s.batch + s.batch - 1 - b) * s.page_size +
           j % s.page_size;
  }
  static int row_tiles(const Shape& s, const ForwardConfig& c) {
    return (s.query_heads / s.kv_heads * s.query_length + c.tile_rows() - 1) / c.tile_rows();
  }
  static int splits(const Shape& s) {
    return s.split_keys == 0 ? 1 : std::max(1, (s.key_length - 1) / s.split_keys + 1);
  }
  static std::size_t parts(const Shape& s, const ForwardConfig& c) {
    return splits(s) == 1 ? 0 : std::size_t(s.batch * s.kv_heads * row_tiles(s, c) * splits(s));
  }
  static std::vector<SequenceInfo> infos(const Shape& s) {
    std::vector<SequenceInfo> all;
    for (int b = 0; b < s.batch; ++b)
      all.push_back({0, 0, s.page_size == 0 ? 0LL : 1LL * b * pages_a_sequence(s), s.query_length,
                     s.key_length, 0, 0, s.key_length - s.query_length, 0});
    return all;
  }

  void describe(const Shape& s, const ForwardConfig& c) {
    const ElementType type = c.type == HalfType::bf16 ? ElementType::bf16 : ElementType::f16;
    const auto rows = [](int heads, int columns, long long length) {
      return Strides{length * heads * columns, 1LL * heads * columns, columns};
    };
    const int key_length = s.page_size == 0 ? s.key_length : s.page_size;
    params.query = {
        query.data(), type, rows(s.query_heads, s.head_dim, s.query_length), nullptr, {}};
    params.key = {key.data(), type, rows(s.kv_heads, s.head_dim, key_length), nullptr, {}};
    params.value = {value.data(), type, rows(s.kv_heads, s.value_dim, key_length), nullptr, {}};
    params.out = out.data(), params.out_type = type;
    params.out_strides = rows(s.query_heads, s.value_dim, s.query_length);
    params.lse = lse.data();
    params.lse_strides = {1LL * s.query_heads * s.query_length, 1, s.query_length};
    params.batch = s.batch, params.query_heads = s.query_heads, params.kv_heads = s.kv_heads;
    params.group = s.query_heads / s.kv_heads;
    params.head_dim = s.head_dim, params.value_dim = s.value_dim;
    params.query_stride = params.key_stride = 1;
    params.scale = s.actual_scale();
    params.sequences = sequences.data();
    if (s.page_size != 0) {
      params.page_ids = pages.data(), params.page_id_stride = 1, params.page_size = s.page_size;
      params.pages = s.batch * pages_a_sequence(s) + 1;
    }
    if (s.sinks) params.sinks = sinks.data(), params.sink_stride = 1;
    if (s.cap != 0) {
      params.step_count = 1;
      params.steps[0].kind = ScoreStepKind::softcap, params.steps[0].cap = s.cap;
    }
    params.shape = {1LL * s.batch * s.kv_heads * row_tiles(s, c) * splits(s), c.tile_rows(),
                    row_tiles(s, c), splits(s), s.split_keys};
    params.part_max = part_max.data(), params.part_sum = part_sum.data();
    params.part_out = part_out.data();
    params.mask.range = {s.low, s.high};
  }
};

void launch(const Candidate& c, const Bound& b) {
  if (b.params.shape.items == 0) return;
  c.kernel<<<unsigned(b.params.shape.items), unsigned(c.config.threads()),
             std::size_t(c.config.shared_bytes())>>>(b.params);
  require(cudaGetLastError(), c.name.c_str());
  if (b.params.shape.splits == 1) return;
  merge_parts<<<unsigned(b.params.shape.items), MergeShape::threads>>>(b.params);
  require(cudaGetLastError(), "merge");
}

// ---- check
// -----------------------------------------------------------------------------------------

struct HostProblem {
  Shape shape;
  HalfType type;
  std::vector<float> query, key, value, out, lse;
};

/// Worst differences from float64; `eager` is what rounding P to the type costs at least.
struct Errors {
  double worst = 0, largest = 0, lse = 0;
  long bad = 0;
};

void check_row(const HostProblem& p, int b, int h, int i, Errors& e) {
  const Shape& s = p.shape;
  const int g = h / (s.query_heads / s.kv_heads), off = s.key_length - s.query_length;
  const float* q =
      &p.query[((std::size_t(b) * s.query_length + i) * s.query_heads + h) * s.head_dim];
  std::vector<double> w(std::size_t(s.key_length), -INFINITY), ref(std::size_t(s.value_dim), 0.0);
  double top = s.sinks ? 1.5 : -INFINITY;
  for (int j = 0; j < s.key_length; ++j) {
    const long long distance = 0LL + j - i - off;
    if (distance < s.low || distance > s.high) continue;
    const float* k = &p.key[(Bound::key_row(s, b, j) * s.kv_heads + g) * s.head_dim];
    double x = 0;
    for (int c = 0; c < s.head_dim; ++c) x += double(q[c]) * k[c];
    x *= s.actual_scale();
    if (s.cap != 0) x = s.cap * std::tanh(x / s.cap);
    w[j] = x;
    top = std::max(top, x);
  }
  double sum = s.sinks ? std::exp(1.5 - top) : 0;
  for (double& x : w) sum += x = top == -INFINITY ? 0.0 : std::exp(x - top);
  for (int j = 0; j < s.key_length; ++j) {
    if (w[j] == 0) continue;
    const float* v = &p.value[(Bound::key_row(s, b, j) * s.kv_heads + g) * s.value_dim];
    for (int c = 0; c < s.value_dim; ++c) ref[c] += w[j] / sum * v[c];
  }
  const float* out =
      &p.out[((std::size_t(b) * s.query_length + i) * s.query_heads + h) * s.value_dim];
  for (int c = 0; c < s.value_dim; ++c) {
    if (!std::isfinite(out[c])) ++e.bad;
    e.worst = std::max(e.worst, std::fabs(out[c] - ref[c]));
    e.largest = std::max(e.largest, std::fabs(ref[c]));
  }
  const double lse = top + std::log(sum);
  const float got = p.lse[(std::size_t(b) * s.query_heads + h) * s.query_length + i];
  if (std::isinf(lse)) {
    if (got != -INFINITY) ++e.bad;
  } else if (!std::isfinite(got)) {
    ++e.bad;
  } else {
    e.lse = std::max(e.lse, std::fabs(got - lse) / std::max(1.0, std::fabs(lse)));
  }
}

/// Finite normal inputs everywhere but in rows that nobody may read, which hold NaN.
HostProblem make_inputs(const Shape& s, HalfType type, const Bound& b, std::uint64_t seed) {
  HostProblem p{s, type, {}, {}, {}, {}, {}};
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::size_t n, float spread, const DeviceArray<std::uint16_t>& to) {
    std::vector<std::uint16_t> bits(n);
    std::vector<float> x(n);
    for (std::size_t i = 0; i < n; ++i) {
      bits[i] = narrow(type, spread * normal(random));
      x[i] = widen(type, bits[i]);
    }
    require(cudaMemcpy(to.data(), bits.data(), n * 2, cudaMemcpyHostToDevice), "upload");
    return x;
  };
  p.query = fill(b.query.size(), s.spread, b.query);
  p.key = fill(b.key.size(), 1, b.key);
  p.value = fill(b.value.size(), 1, b.value);
  std::vector<bool> owned(Bound::key_rows(s), false);
  for (int i = 0; i < s.batch; ++i)
    for (int j = 0; j < s.key_length; ++j)
      if (s.low == open_low || j >= s.low + s.key_length - s.query_length)
        owned[Bound::key_row(s, i, j)] = true;
  const auto poison = [&](const DeviceArray<std::uint16_t>& to, std::size_t row) {
    for (std::size_t r = 0; r < owned.size(); ++r)
      if (!owned[r]) require(cudaMemset(to.data() + r * row, 0xff, row * 2), "poison");
  };
  poison(b.key, std::size_t(s.kv_heads * s.head_dim));
  poison(b.value, std::size_t(s.kv_heads * s.value_dim));
  return p;
}

bool check_shape(const Candidate& c, const Shape& s, std::uint64_t seed) {
  Bound b(s, c.config);
  HostProblem p = make_inputs(s, c.config.type, b, seed);
  std::vector<std::uint16_t> first;
  bool repeatable = true;
  for (int run = 0; run < 2; ++run) {
    b.out.poison(), b.lse.poison(), b.part_max.poison(), b.part_sum.poison(), b.part_out.poison();
    launch(c, b);
    require(cudaDeviceSynchronize(), c.name.c_str());
    const std::vector<std::uint16_t> bits = b.out.download();
    if (run == 0) first = bits;
    repeatable &= first == bits;
  }
  for (std::uint16_t bits : first) p.out.push_back(widen(c.config.type, bits));
  p.lse = b.lse.download();
  const long rows = long(s.batch) * s.query_heads * s.query_length;
  const long wanted =
      std::min(rows, std::max(48L, 3000000L / std::max(1, s.key_length * s.head_dim / 64)));
  Errors e;
  std::mt19937_64 random(seed + 1);
  for (long n = 0; n < wanted; ++n) {
    const long r = wanted == rows ? n : long(random() % std::uint64_t(rows));
    check_row(p, int(r / s.query_length / s.query_heads), int(r / s.query_length % s.query_heads),
              int(r % s.query_length), e);
  }
  for (float x : p.out) e.bad += !std::isfinite(x);
  const double unit = c.config.type == HalfType::bf16 ? 1.0 / 256 : 1.0 / 2048;
  const bool ok = e.bad == 0 && repeatable && e.worst <= 2 * unit * std::max(e.largest, 1e-2) &&
                  e.lse <= 2e-5 * std::max(1.0f, s.spread);
  if (!ok)
    std::printf(
        "FAIL %s B%d Sq%d Sk%d Hq%d Hkv%d D%d Dv%d low %d high %d scale %g spread %g page %d "
        "split %d cap %g: worst %.3g of %.3g, lse %.3g, non-finite %ld, repeatable %d\n",
        c.name.c_str(), s.batch, s.query_length, s.key_length, s.query_heads, s.kv_heads,
        s.head_dim, s.value_dim, s.low, s.high, s.scale, s.spread, s.page_size, s.split_keys, s.cap,
        e.worst, e.largest, e.lse, e.bad, int(repeatable));
  return ok;
}

std::vector<Shape> shapes_for(const ForwardConfig& c) {
  const int d = c.head_dim, v = c.value_dim;
  std::vector<Shape> all = {
      {1, 1, 1, 1, 1, d, v},
      {2, 127, 127, 2, 2, d, v},
      {1, 129, 200, 3, 3, d, v, open_low, 0},
      {1, 200, 129, 2, 2, d, v, open_low, 0},
      {2, 333, 333, 4, 4, d, v, open_low, 0},
      {2, 257, 500, 4, 2, d, v, -100, 0},
      {1, 300, 700, 2, 1, d, v, -64, 31},
      {3, 5, 1000, 8, 2, d, v, open_low, 0},
      {2, 1, 2000, 8, 1, d, v, open_low, open_high, 0, 1, 0, 256},
      {2, 7, 1500, 4, 2, d, v, -600, 0, 0, 1, 0, 512},
      {2, 100, 300, 2, 2, d, v, open_low, 0, -0.2f},
      {1, 100, 300, 2, 2, d, v, open_low, 0, 0, 8},
      {1, 64, 512, 2, 2, d, v, open_low, 0, 4096.0f, 64},
      {1, 100, 300, 2, 2, d - 8, v - 8, open_low, 0},
      {2, 4, 0, 2, 2, d, v},
      {1, 1024, 1024, 2, 2, d, v, open_low, 0},
  };
  Shape sink = all[4];
  sink.sinks = true;
  all.push_back(sink);
  if (c.keys == KeyHome::strided) return all;
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

bool check(const Candidate& c) {
  bool ok = true;
  std::uint64_t seed = 1;
  for (const Shape& s : shapes_for(c.config)) ok &= check_shape(c, s, seed += 7);
  std::printf("%s %s\n", ok ? "ok  " : "FAIL", c.name.c_str());
  return ok;
}

// ---- time
// ------------------------------------------------------------------------------------------

__global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

double median_ms(const Candidate& c, const std::vector<Bound>& sets, int runs) {
  for (std::size_t i = 0; i < 4; ++i) launch(c, sets[i % sets.size()]);
  require(cudaDeviceSynchronize(), c.name.c_str());
  std::vector<cudaEvent_t> events(std::size_t(2 * runs));
  for (cudaEvent_t& e : events) require(cudaEventCreate(&e), "event");
  spin<<<1, 1>>>(20'000'000);
  for (std::size_t i = 0; i < std::size_t(runs); ++i) {
    require(cudaEventRecord(events[2 * i]), "record");
    launch(c, sets[i % sets.size()]);
    require(cudaEventRecord(events[2 * i + 1]), "record");
  }
  require(cudaDeviceSynchronize(), c.name.c_str());
  std::vector<float> ms(static_cast<std::size_t>(runs));
  for (std::size_t i = 0; i < ms.size(); ++i)
    require(cudaEventElapsedTime(&ms[i], events[2 * i], events[2 * i + 1]), "elapsed");
  for (cudaEvent_t& e : events) cudaEventDestroy(e);
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2];
}

struct TimeOptions {
  int sequence = 0, causal = -1;
  std::FILE* csv = nullptr;
};

void time_candidate(const Candidate& c, const TimeOptions& options) {
  constexpr int tokens = 16384, hidden = 2048;
  const int d = c.config.head_dim, heads = std::max(1, hidden / d);
  for (int causal = 0; causal < 2; ++causal) {
    if (options.causal >= 0 && options.causal != causal) continue;
    std::printf("%-34s %-6s", c.name.c_str(), causal ? "causal" : "dense");
    for (int length : {512, 1024, 2048, 4096, 8192, 16384}) {
      if (options.sequence != 0 && options.sequence != length) continue;
      Shape s{tokens / length, length, length, heads, heads, d, c.config.value_dim};
      if (causal) s.high = 0;
      std::vector<Bound> sets;  // 4 x 64 MB of Q, K, V and O a set: far beyond 50 MB of L2
      for (int i = 0; i < 2; ++i) sets.emplace_back(s, c.config);
      std::uint64_t seed = 1;
      for (const Bound& b : sets)
        for (const auto* x : {&b.query, &b.key, &b.value})
          fill_normal<<<1024, 256>>>(x->data(), x->size(), ++seed);
      const double ms = median_ms(c, sets, 25), rate = s.flops() / ms / 1e9;
      std::printf(" %6.1f", rate);
      std::fflush(stdout);
      if (options.csv)
        std::fprintf(options.csv, "%s,%d,%d,%d,%d,%d,%.5f,%.1f\n", c.name.c_str(), s.batch, heads,
                     d, length, causal, ms, rate);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "";
  std::vector<std::string> names;
  TimeOptions options;
  for (int i = 2; i < count; ++i) {
    const std::string word = words[i];
    const bool has_value = i + 1 < count;
    if (word == "--csv" && has_value)
      options.csv = std::fopen(words[++i], "w");
    else if (word == "--seq" && has_value)
      options.sequence = std::atoi(words[++i]);
    else if (word == "--causal" && has_value)
      options.causal = std::atoi(words[++i]);
    else
      names.push_back(word);
  }
  if (mode != "check" && mode != "time" && mode != "list") {
    std::printf(
        "usage: forward_bench check|time|list [NAME..] [--csv F] [--seq N] [--causal 0|1]\n");
    return 2;
  }
  if (options.csv)
    std::fprintf(options.csv, "kernel,batch,heads,head_dim,length,causal,ms,tflops\n");
  if (mode == "time") std::printf("TFLOPS at %-30s 512   1024   2048   4096   8192  16384\n", "");
  add_candidates();
  bool ok = true;
  for (const Candidate& c : candidates()) {
    if (!names.empty() && std::none_of(names.begin(), names.end(), [&](const std::string& name) {
          return c.name.find(name) != std::string::npos;
        }))
      continue;
    if (mode != "list")
      require(cudaFuncSetAttribute(c.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   c.config.shared_bytes()),
              c.name.c_str());
    if (mode == "check") ok &= check(c);
    if (mode == "time") time_candidate(c, options);
    if (mode == "list")
      std::printf("%-40s %4d threads %6d bytes\n", c.name.c_str(), c.config.threads(),
                  c.config.shared_bytes());
  }
  if (options.csv) std::fclose(options.csv);
  return ok ? 0 : 1;
}
