#include "bench/cuda/forward/problem.hpp"

#include <cmath>

#include "cuda/launch/device_functions.hpp"
#include "cuda/launch/forward_plan.hpp"
#include "cuda/runtime/launch.hpp"

namespace tilefold::bench::forward {

using cuda::ElementType;
using cuda::SequenceInfo;
using cuda::Strides;
using cuda::sm80::ForwardConfig;

namespace {

/// Pages of the sequences take turns, the last sequence first; page 0 belongs to nobody.
int page_id(const Shape& s, int b, int page) { return 1 + page * s.batch + s.batch - 1 - b; }

std::vector<int> page_table(const Shape& s) {
  if (s.page_size == 0) return {-1};
  std::vector<int> ids;
  for (int b = 0; b < s.batch; ++b)
    for (int page = 0; page < s.pages_a_sequence(); ++page) ids.push_back(page_id(s, b, page));
  return ids;
}

std::vector<SequenceInfo> sequence_infos(const Shape& s) {
  std::vector<SequenceInfo> all;
  for (int b = 0; b < s.batch; ++b)
    all.push_back({.query_begin = 0,
                   .key_begin = 0,
                   .page_begin = s.page_size == 0 ? 0LL : 1LL * b * s.pages_a_sequence(),
                   .query_length = s.query_length,
                   .key_length = s.key_length,
                   .query_start = 0,
                   .key_start = 0,
                   .offset = s.key_length - s.query_length,
                   .broken = 0});
  return all;
}

int row_tiles(const Shape& s, const ForwardConfig& c) {
  return (s.query_heads / s.kv_heads * s.query_length + c.tile_rows() - 1) / c.tile_rows();
}
int splits(const Shape& s) {
  return s.split_keys == 0 ? 1 : std::max(1, (s.key_length - 1) / s.split_keys + 1);
}
/// Rows of all parts; 0 where no row is split.
std::size_t part_rows(const Shape& s, const ForwardConfig& c) {
  if (splits(s) == 1) return 0;
  return std::size_t(s.batch * s.kv_heads * row_tiles(s, c) * splits(s)) *
         std::size_t(c.tile_rows());
}
std::size_t query_rows(const Shape& s) {
  return std::size_t(s.batch) * std::size_t(s.query_length) * std::size_t(s.query_heads);
}

/// Strides of [.., length, heads, columns].
Strides rows_of(int heads, int columns, long long length) {
  return {length * heads * columns, 1LL * heads * columns, columns};
}

void point_at_tensors(Bound& b, const Shape& s, ElementType type) {
  cuda::ForwardParams& p = b.params;
  const int key_length = s.page_size == 0 ? s.key_length : s.page_size;
  p.query = {b.query.data(), type, rows_of(s.query_heads, s.head_dim, s.query_length), nullptr, {}};
  p.key = {b.key.data(), type, rows_of(s.kv_heads, s.head_dim, key_length), nullptr, {}};
  p.value = {b.value.data(), type, rows_of(s.kv_heads, s.value_dim, key_length), nullptr, {}};
  p.out = b.out.data(), p.out_type = s.wide_output ? ElementType::f32 : type;
  p.out_strides = rows_of(s.query_heads, s.value_dim, s.query_length);
  p.lse = b.lse.data();
  p.lse_strides = {1LL * s.query_heads * s.query_length, 1, s.query_length};
  p.sequences = b.sequences.data();
  p.part_max = b.part_max.data(), p.part_sum = b.part_sum.data();
  p.part_out = b.part_out.data();
  if (s.page_size != 0) {
    p.page_ids = b.pages.data(), p.page_id_stride = 1, p.page_size = s.page_size;
    p.pages = s.batch * s.pages_a_sequence() + 1;
  }
  if (s.sinks) p.sinks = b.sinks.data(), p.sink_stride = 1;
}

core::Geometry geometry_of(const Shape& s) {
  core::Geometry g;
  g.batch = s.batch, g.query_heads = s.query_heads, g.kv_heads = s.kv_heads;
  g.head_dim = s.head_dim, g.value_dim = s.value_dim;
  g.key_dtype = DType::bf16;
  core::Sequence sequence;
  sequence.query_length = g.max_query_length = s.query_length;
  sequence.key_length = g.max_key_length = s.key_length;
  g.sequences.assign(std::size_t(s.batch), sequence);
  g.scale = s.actual_scale();
  g.out_dtype = s.wide_output ? DType::f32 : DType::bf16;
  return g;
}

void describe(cuda::ForwardParams& p, const Shape& s, const ForwardConfig& c) {
  p.batch = s.batch, p.query_heads = s.query_heads, p.kv_heads = s.kv_heads;
  p.group = p.pack = s.query_heads / s.kv_heads;
  p.lists = s.kv_heads;
  p.head_dim = s.head_dim, p.value_dim = s.value_dim;
  p.query_stride = p.key_stride = 1;
  p.scale = s.actual_scale();
  if (s.cap != 0) {
    p.step_count = 1;
    p.steps[0].kind = cuda::ScoreStepKind::softcap, p.steps[0].cap = s.cap;
  }
  p.shape = {1LL * s.batch * s.kv_heads * row_tiles(s, c) * splits(s), c.tile_rows(),
             row_tiles(s, c), splits(s), s.split_keys};
  p.mask.range = {s.low, s.high};
  // Causal blocks take turns among heads, and weights are split, as launch/forward_plan.hpp has it.
  const core::Geometry g = geometry_of(s);
  cuda::interleave_runs(g, g.group(), p.mask.range, p.shape);
  p.exact_below = cuda::exact_weights(g, Reproducibility::same_plan, true);
}

}  // namespace

float Shape::actual_scale() const {
  return scale != 0 ? scale : float(1 / std::sqrt(double(head_dim)));
}

double Shape::flops() const {
  const double all = double(query_length) * key_length;
  const double pairs = causal() && query_length == key_length ? 0.5 * all : all;
  return 2.0 * batch * query_heads * pairs * (head_dim + value_dim);
}

int Shape::pages_a_sequence() const { return (key_length + page_size - 1) / page_size; }

std::size_t Shape::key_rows() const {
  if (page_size == 0) return std::size_t(batch) * std::size_t(key_length);
  return std::size_t(batch * pages_a_sequence() + 1) * std::size_t(page_size);
}

std::size_t Shape::key_row(int b, int j) const {
  if (page_size == 0) return std::size_t(b) * std::size_t(key_length) + std::size_t(j);
  return std::size_t(page_id(*this, b, j / page_size)) * std::size_t(page_size) +
         std::size_t(j % page_size);
}

Bound::Bound(const Shape& s, const ForwardConfig& c)
    : query(query_rows(s) * std::size_t(s.head_dim)),
      key(s.key_rows() * std::size_t(s.kv_heads * s.head_dim)),
      value(s.key_rows() * std::size_t(s.kv_heads * s.value_dim)),
      out(query_rows(s) * std::size_t(s.value_dim) * (s.wide_output ? 2 : 1)),
      lse(query_rows(s)),
      part_max(part_rows(s, c)),
      part_sum(part_rows(s, c)),
      part_out(part_rows(s, c) * std::size_t(s.value_dim)),
      sinks(std::vector<float>(std::size_t(s.query_heads), Shape::sink)),
      sequences(sequence_infos(s)),
      pages(page_table(s)) {
  point_at_tensors(*this, s, c.type == cuda::HalfType::bf16 ? ElementType::bf16 : ElementType::f16);
  describe(params, s, c);
}

void prepare(const Kernel& kernel) {
  cuda::allow_shared(kernel.function, kernel.config.shared_bytes());
}

void launch(const Kernel& kernel, const Bound& b) {
  cuda::launch({kernel.function, b.params.shape.items, kernel.config.threads(),
                kernel.config.shared_bytes()},
               kernel.name.c_str(), b.params);
  if (b.params.shape.splits > 1)
    cuda::launch(
        {cuda::merge_function(), b.params.shape.items * b.params.shape.merge_blocks(), 128},
        "launching merge_parts", b.params);
}

}  // namespace tilefold::bench::forward
