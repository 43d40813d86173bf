// Three passes over a matrix of scores that is all in memory: Q K^T, softmax, P V.
#include "bench/materialised.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "bench/matrix_product.hpp"
#include "bench/peak_memory.hpp"
#include "core/parallel_for.hpp"
#include "reference/attention.hpp"
#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int block_rows = 64;  // rows of one task; also a tile of masks and score changes
constexpr int block_keys = 64;

template <class T> void widen(const TensorView& tensor, std::int64_t offset, int count, float* to) {
  const T* from = static_cast<const T*>(tensor.data()) + offset;
  for (int c = 0; c < count; ++c) to[c] = float(to_float(from[c]));
}

// `count` consecutive elements from `offset`, as float32.
void read_row(const TensorView& tensor, std::int64_t offset, int count, float* to) {
  switch (tensor.dtype()) {
    case DType::f32: return widen<float>(tensor, offset, count, to);
    case DType::f16: return widen<float16>(tensor, offset, count, to);
    case DType::bf16: return widen<bfloat16>(tensor, offset, count, to);
    default:
      for (int c = 0; c < count; ++c) to[c] = float(reference::element(tensor, offset + c));
  }
}

void write_element(const OutputView& tensor, std::int64_t offset, float x) {
  switch (tensor.dtype()) {
    case DType::f64: static_cast<double*>(tensor.data())[offset] = double(x); return;
    case DType::f32: static_cast<float*>(tensor.data())[offset] = x; return;
    case DType::f16: static_cast<float16*>(tensor.data())[offset] = round_to<float16>(x); return;
    default: static_cast<bfloat16*>(tensor.data())[offset] = round_to<bfloat16>(x);
  }
}

// One call: float32 copies of the inputs, the scores, and what is computed from them.
class Run {
 public:
  explicit Run(const Problem& problem)
      : t_(problem.tensors),
        o_(problem.options),
        g_(core::resolve(problem)),
        value_(core::value_of(t_, o_)),
        threads_(core::thread_count(o_.threads)) {
    const auto available = available_memory();
    if (available && score_bytes(g_) > 0.9 * double(*available))
      throw Error(ErrorCode::out_of_memory,
                  fmt::format("the materialised scores take {:.1f} GB: {:.1f} GB are available",
                              score_bytes(g_) / 1e9, double(*available) / 1e9));
  }

  void run() {
    for (int b = 0; b < g_.batch; ++b) sequence(b);
  }

 private:
  using Floats = std::unique_ptr<float[]>;
  static Floats floats(std::int64_t count) {
    return Floats(new float[std::size_t(std::max<std::int64_t>(count, 1))]);
  }

  void sequence(int b) {
    s_ = g_.sequences[std::size_t(b)];
    const std::int64_t rows = s_.query_length, keys = s_.key_length;
    if (rows == 0) return;
    query_ = floats(g_.query_heads * rows * g_.head_dim);
    keys_ = floats(g_.kv_heads * keys * g_.head_dim);
    values_ = floats(g_.kv_heads * keys * g_.value_dim);
    scores_ = floats(g_.query_heads * rows * keys);
    const std::int64_t blocks = (rows + block_rows - 1) / block_rows;
    each(g_.query_heads, [&](std::int64_t head) { read_query(b, int(head)); });
    each(g_.kv_heads, [&](std::int64_t head) { read_key_value(b, int(head)); });
    const auto pass = [&](void (Run::*step)(int, int, int)) {
      each(g_.query_heads * blocks, [&](std::int64_t i) {
        (this->*step)(b, int(i / blocks), int(i % blocks) * block_rows);
      });
    };
    denominators_ = floats(g_.query_heads * rows);
    pass(&Run::score_rows);
    pass(&Run::softmax_rows);
    pass(&Run::output_rows);
  }

  template <class F> void each(std::int64_t count, const F& body) {
    core::parallel_for(count, threads_, [&](std::int64_t i, int) { body(i); });
  }

  void read_query(int b, int head) {
    const core::RowAddress address = core::RowAddress::of(t_.query);
    for (int i = 0; i < s_.query_length; ++i) {
      const std::int64_t row = s_.query_begin + i;
      float* to = query_row(head, i);
      read_row(t_.query, address.offset(b, row, head), g_.head_dim, to);
      const float scale =
          float(g_.scale) * core::descale_at(t_.query_descale, {b, row, head, 0, 0},
                                             g_.query_layout == core::QueryLayout::ragged
                                                 ? core::KeyLayout::ragged
                                                 : core::KeyLayout::dense);
      for (int d = 0; d < g_.head_dim; ++d) to[d] *= scale;
    }
  }

  struct KeyPlace {
    std::int64_t offset;
    core::DescalePoint point;
  };
  KeyPlace place(const TensorView& tensor, int b, int head, int j) const {
    core::DescalePoint point{b, s_.key_begin + j, head, 0, 0};
    if (g_.key_layout != core::KeyLayout::paged)
      return {core::RowAddress::of(tensor).offset(b, point.row, head), point};
    point.page = core::PageList(t_.pages, b)[j / g_.page_size];
    point.slot = j % g_.page_size;
    // A page that no row needs may be absent from the table: what is read there is masked.
    if (point.page < 0) point.page = 0;
    const core::PageAddress address = core::PageAddress::of(tensor, o_.page_layout);
    return {address.offset(point.page, point.slot, head), point};
  }

  // Keys are stored transposed, [D, Sk]: the products then run along keys.
  void read_key_value(int b, int head) {
    std::vector<float> row(std::size_t(std::max(g_.head_dim, g_.value_dim)));
    const std::int64_t keys = s_.key_length;
    const Descale& value_descale =
        o_.value_source == ValueSource::own ? t_.value_descale : t_.key_descale;
    for (int j = 0; j < keys; ++j) {
      const KeyPlace key = place(t_.key, b, head, j);
      const float key_scale = core::descale_at(t_.key_descale, key.point, g_.key_layout);
      read_row(t_.key, key.offset, g_.head_dim, row.data());
      for (int d = 0; d < g_.head_dim; ++d)
        keys_[std::size_t((head * std::int64_t(g_.head_dim) + d) * keys + j)] =
            row[std::size_t(d)] * key_scale;
      const KeyPlace value = place(value_, b, head, j);
      const float value_scale = core::descale_at(value_descale, value.point, g_.key_layout);
      float* to = values_.get() + (head * keys + j) * g_.value_dim;
      read_row(value_, value.offset, g_.value_dim, to);
      for (int c = 0; c < g_.value_dim; ++c) to[c] *= value_scale;
    }
  }

  float* query_row(int head, int i) {
    return query_.get() + (std::int64_t(head) * s_.query_length + i) * g_.head_dim;
  }
  float* score_row(int head, int i) {
    return scores_.get() + (std::int64_t(head) * s_.query_length + i) * s_.key_length;
  }
  int rows_from(int first) const { return std::min(block_rows, s_.query_length - first); }

  void score_rows(int b, int head, int first) {
    const std::int64_t keys = s_.key_length;
    multiply({score_row(head, first), keys}, {query_row(head, first), g_.head_dim},
             {keys_.get() + g_.kv_head(head) * g_.head_dim * keys, keys}, rows_from(first),
             g_.head_dim, int(keys));
    named_changes(b, head, first);
    if (o_.score.node() == nullptr && o_.mask.node() == nullptr) return;
    for (int j = 0; j < keys; j += block_keys) formula_tile(b, head, first, j);
  }

  void named_changes(int b, int head, int first) {
    const TensorView& slopes = t_.alibi_slopes;
    const TensorView& bias = t_.bias;
    float slope = 0;
    if (slopes)
      slope =
          float(reference::element(slopes, head * slopes.stride(slopes.rank() - 1) +
                                               (slopes.rank() == 2 ? b * slopes.stride(0) : 0)));
    for (int i = first; i < first + rows_from(first); ++i) {
      float* row = score_row(head, i);
      if (o_.softcap) {
        const float cap = float(*o_.softcap);
        for (int j = 0; j < s_.key_length; ++j) row[j] = cap * std::tanh(row[j] / cap);
      }
      if (slopes) {
        const int at = g_.query_position(b, i) + s_.offset;
        for (int j = 0; j < s_.key_length; ++j) row[j] += slope * float(g_.key_position(b, j) - at);
      }
      if (bias) {
        const std::int64_t from = b * bias.stride(0) + head * bias.stride(1) + i * bias.stride(2);
        for (int j = 0; j < s_.key_length; ++j)
          row[j] += float(reference::element(bias, from + j * bias.stride(3)));
      }
    }
  }

  // Formulas lie [key][query]; the matrix lies [query][key].
  void formula_tile(int b, int head, int first, int first_key) {
    const score::TilePositions tile{g_.query_position(b, first),
                                    g_.query_stride,
                                    rows_from(first),
                                    g_.key_position(b, first_key),
                                    g_.key_stride,
                                    std::min(block_keys, s_.key_length - first_key),
                                    g_.place(b, head)};
    std::array<float, std::size_t(block_rows) * block_keys> scores;
    std::array<unsigned char, std::size_t(block_rows) * block_keys> flags;
    const auto at = [](int c, int r) { return std::size_t(c * block_rows + r); };
    if (const score::ScoreNode* change = o_.score.node()) {
      for (int r = 0; r < tile.queries; ++r)
        for (int c = 0; c < tile.keys; ++c)
          scores[at(c, r)] = score_row(head, first + r)[first_key + c];
      change->change(tile, scores.data(), block_rows);
      for (int r = 0; r < tile.queries; ++r)
        for (int c = 0; c < tile.keys; ++c)
          score_row(head, first + r)[first_key + c] = scores[at(c, r)];
    }
    if (const score::MaskNode* mask = o_.mask.node()) {
      mask->keep(tile, flags.data(), block_rows);
      for (int r = 0; r < tile.queries; ++r) {
        float* row = score_row(head, first + r) + first_key;
        for (int c = 0; c < tile.keys; ++c) row[c] = flags[at(c, r)] ? row[c] : -infinity;
      }
    }
  }

  void softmax_rows(int b, int head, int first) {
    const float sink =
        t_.sinks ? float(reference::element(t_.sinks, head * t_.sinks.stride(0))) : -infinity;
    for (int i = first; i < first + rows_from(first); ++i) {
      float* row = score_row(head, i);
      float max = sink;
      for (int j = 0; j < s_.key_length; ++j) max = std::max(max, row[j]);
      // (-inf) - (-inf) is NaN in a row without keys: shift by 0 instead.
      const float shift = max == -infinity ? 0.0f : max;
      const float sum = exponentials(row, s_.key_length, shift) + std::exp(sink - shift);
      denominators_[std::size_t(head) * std::size_t(s_.query_length) + std::size_t(i)] = sum;
      if (t_.lse) write_lse(b, head, i, max == -infinity ? max : shift + std::log(sum));
    }
  }

  void write_lse(int b, int head, int i, float lse) {
    const TensorView& v = t_.lse;
    const std::int64_t offset = v.rank() == 3
                                    ? b * v.stride(0) + head * v.stride(1) + i * v.stride(2)
                                    : head * v.stride(0) + (s_.query_begin + i) * v.stride(1);
    write_element(t_.lse, offset, lse);
  }

  void output_rows(int b, int head, int first) {
    const std::int64_t keys = s_.key_length;
    std::vector<float> out(std::size_t(block_rows) * std::size_t(g_.value_dim));
    multiply({out.data(), g_.value_dim}, {score_row(head, first), keys},
             {values_.get() + g_.kv_head(head) * keys * g_.value_dim, g_.value_dim},
             rows_from(first), int(keys), g_.value_dim);
    const core::RowAddress address = core::RowAddress::of(t_.out);
    for (int r = 0; r < rows_from(first); ++r) {
      const float sum =
          denominators_[std::size_t(head) * std::size_t(s_.query_length) + std::size_t(first + r)];
      const float factor = sum == 0 ? 0 : 1 / sum;
      const std::int64_t offset = address.offset(b, s_.query_begin + first + r, head);
      for (int c = 0; c < g_.value_dim; ++c)
        write_element(t_.out, offset + c, out[std::size_t(r * g_.value_dim + c)] * factor);
    }
  }

  const Tensors& t_;
  const Options& o_;
  const core::Geometry g_;
  const TensorView value_;
  const int threads_;
  core::Sequence s_;
  Floats query_, keys_, values_, scores_, denominators_;
};

}  // namespace

double score_bytes(const core::Geometry& geometry) {
  double bytes = 0;
  for (const core::Sequence& s : geometry.sequences)
    bytes = std::max(bytes, 4.0 * geometry.query_heads * s.query_length * s.key_length);
  return bytes;
}

void materialised(const Problem& problem) { Run(problem).run(); }

}  // namespace tilefold::bench
