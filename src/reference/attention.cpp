// Materialised attention: scores, hidden keys, softmax, weighted values; then the chain rule.
#include "reference/attention.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "tilefold/error.hpp"

namespace tilefold::reference {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class F> using Row = std::vector<F>;

template <class F>
Row<F> read_row(const TensorView& tensor, std::int64_t offset, int columns, float descale) {
  Row<F> row(static_cast<std::size_t>(columns));
  for (int c = 0; c < columns; ++c)
    row[std::size_t(c)] = F(element(tensor, offset + c)) * F(descale);
  return row;
}

template <class F> Row<F> read_query(const Case& p, int b, int i, int head) {
  const core::Geometry& g = p.geometry;
  const std::int64_t row = g.sequences[std::size_t(b)].query_begin + i;
  const auto layout =
      g.query_layout == core::QueryLayout::dense ? core::KeyLayout::dense : core::KeyLayout::ragged;
  const std::int64_t offset = core::RowAddress::of(p.tensors.query).offset(b, row, head);
  return read_row<F>(p.tensors.query, offset, g.head_dim,
                     core::descale_at(p.tensors.query_descale, {b, row, head, 0, 0}, layout));
}

/// Keys and values of one sequence and KV head. A row is read when a query sees it and not before:
/// memory that nobody sees may hold anything, and a page that nobody sees need not exist.
template <class F> class Cache {
 public:
  Cache(const Case& p, int b, int head)
      : p_(p),
        b_(b),
        head_(head),
        value_(core::value_of(p.tensors, p.options)),
        keys_(std::size_t(p.geometry.sequences[std::size_t(b)].key_length)),
        values_(keys_.size()) {}
  const Row<F>& key(int j) {
    return read(keys_, j, p_.tensors.key, p_.geometry.head_dim, p_.tensors.key_descale);
  }
  const Row<F>& value(int j) {
    const bool view = p_.options.value_source == ValueSource::view_of_key;
    return read(values_, j, value_, p_.geometry.value_dim,
                view ? p_.tensors.key_descale : p_.tensors.value_descale);
  }

 private:
  const Row<F>& read(std::vector<Row<F>>& rows, int j, const TensorView& tensor, int columns,
                     const Descale& descale) const {
    Row<F>& row = rows[std::size_t(j)];
    if (!row.empty()) return row;
    const core::Geometry& g = p_.geometry;
    core::DescalePoint at{b_, g.sequences[std::size_t(b_)].key_begin + j, head_, 0, 0};
    std::int64_t offset = 0;
    if (g.key_layout == core::KeyLayout::paged) {
      at.page = core::PageList(p_.tensors.pages, b_)[j / g.page_size];
      at.slot = j % g.page_size;
      offset =
          core::PageAddress::of(tensor, p_.options.page_layout).offset(at.page, at.slot, head_);
    } else {
      offset = core::RowAddress::of(tensor).offset(b_, at.row, head_);
    }
    return row = read_row<F>(tensor, offset, columns, core::descale_at(descale, at, g.key_layout));
  }
  const Case& p_;
  int b_, head_;
  TensorView value_;
  std::vector<Row<F>> keys_, values_;
};

score::TilePositions one_element(const core::Geometry& g, int b, int i, int j, int head) {
  return {g.query_position(b, i), 1, 1, g.key_position(b, j), 1, 1, g.place(b, head)};
}

/// Offset of (sequence, head, row, key) in a bias; rows and keys count within the sequence,
/// whatever Options::positions says of them.
std::int64_t bias_offset(const TensorView& bias, int b, int head, int i, int j) {
  return b * bias.stride(0) + head * bias.stride(1) + i * bias.stride(2) + j * bias.stride(3);
}

/// d(score) / d(scaled dot product) is before_bias * after_bias; d(score) / d(bias) is after_bias.
struct Slopes {
  double before_bias = 1, after_bias = 1;
};

/// The score of one visible pair: scaled dot product, softcap, ALiBi, bias, custom change.
template <class F> F score_of(const Case& p, F dot, const score::TilePositions& at,
                              std::int64_t bias_at, Slopes* slopes = nullptr) {
  F s = F(p.geometry.scale) * dot;
  if (p.options.softcap) {
    const F cap = F(*p.options.softcap), t = std::tanh(s / cap);
    s = cap * t;
    if (slopes) slopes->before_bias = double(1 - t * t);
  }
  if (const TensorView& slope = p.tensors.alibi_slopes) {
    const std::int64_t last = slope.rank() - 1;
    const std::int64_t h = at.place.query_head * slope.stride(int(last));
    s += F(element(slope, h + (last == 1 ? at.place.batch * slope.stride(0) : 0))) *
         F(at.key_first - (at.query_first + at.place.offset));
  }
  if (p.tensors.bias) s += F(element(p.tensors.bias, bias_at));
  if (s == F(-infinity)) return s;  // hidden, whatever a later change would make of it
  if (const score::ScoreNode* node = p.options.score.node()) {
    if constexpr (std::is_same_v<F, double>) {
      if (slopes) {
        node->differentiate(at, &s, &slopes->after_bias, 1);
        return s;
      }
    }
    node->change(at, &s, 1);
  }
  return s;
}

/// One row of attention: what its keys weigh. A hidden key weighs 0 and is not `seen`.
template <class F> struct Weights {
  Row<F> weight;           // [Sk], normalised
  std::vector<bool> seen;  // [Sk]
  std::vector<Slopes> slopes;
  F sink = 0, lse = F(-infinity);
};

template <class F> Weights<F> weights_of(const Case& p, int b, int head, int i, Cache<F>& cache) {
  const core::Geometry& g = p.geometry;
  const int keys = g.sequences[std::size_t(b)].key_length;
  Weights<F> w{Row<F>(std::size_t(keys)), std::vector<bool>(std::size_t(keys)),
               std::vector<Slopes>(std::size_t(keys))};
  const bool has_sink = p.tensors.sinks.present();
  const F sink =
      has_sink ? F(element(p.tensors.sinks, head * p.tensors.sinks.stride(0))) : F(-infinity);
  const Row<F> query = read_query<F>(p, b, i, head);
  F max = sink;
  for (int j = 0; j < keys; ++j) {
    const score::TilePositions at = one_element(g, b, i, j, head);
    unsigned char keep = 1;
    if (const score::MaskNode* mask = p.options.mask.node()) mask->keep(at, &keep, 1);
    if (!keep) continue;
    F dot = 0;
    const Row<F>& key = cache.key(j);
    for (int c = 0; c < g.head_dim; ++c) dot += query[std::size_t(c)] * key[std::size_t(c)];
    const std::int64_t bias_at = p.tensors.bias ? bias_offset(p.tensors.bias, b, head, i, j) : 0;
    const F s = score_of(p, dot, at, bias_at, &w.slopes[std::size_t(j)]);
    w.weight[std::size_t(j)] = s;
    w.seen[std::size_t(j)] = s != F(-infinity);
    if (w.seen[std::size_t(j)] && !(s < max)) max = s;  // NaN too: no empty row
  }
  if (max == F(-infinity)) return w;  // nothing to see and no sink
  w.sink = std::exp(sink - max);
  F sum = w.sink;
  for (std::size_t j = 0; j < w.weight.size(); ++j)
    if (w.seen[j]) sum += w.weight[j] = std::exp(w.weight[j] - max);
  for (std::size_t j = 0; j < w.weight.size(); ++j)
    if (w.seen[j]) w.weight[j] /= sum;
  w.sink /= sum;
  w.lse = max + std::log(sum);
  return w;
}

std::vector<int> lengths(const core::Geometry& g, int core::Sequence::*length) {
  std::vector<int> all;
  for (const core::Sequence& s : g.sequences) all.push_back(s.*length);
  return all;
}

enum class Rounding { none, eager };

template <class F> Result attend(const Case& p, Rounding rounding) {
  const core::Geometry& g = p.geometry;
  const std::vector<int> rows = lengths(g, &core::Sequence::query_length);
  const DType weight_type = is_fp8(g.query_dtype) ? DType::bf16 : g.query_dtype;
  Result result{Table(rows, g.query_heads, g.value_dim), Table(rows, g.query_heads, 1)};
  for (int b = 0; b < g.batch; ++b)
    for (int kv_head = 0; kv_head < g.kv_heads; ++kv_head) {
      Cache<F> cache(p, b, kv_head);
      for (int head = kv_head * g.group(); head < (kv_head + 1) * g.group(); ++head)
        for (int i = 0; i < rows[std::size_t(b)]; ++i) {
          const Weights<F> w = weights_of<F>(p, b, head, i, cache);
          Row<F> out(std::size_t(g.value_dim));
          for (int j = 0; j < int(w.weight.size()); ++j) {
            if (!w.seen[std::size_t(j)]) continue;
            F weight = w.weight[std::size_t(j)];
            if (rounding == Rounding::eager) weight = F(rounded(double(weight), weight_type));
            const Row<F>& value = cache.value(j);
            for (std::size_t c = 0; c < out.size(); ++c) out[c] += weight * value[c];
          }
          for (std::size_t c = 0; c < out.size(); ++c)
            result.out.at(b, i, head)[c] =
                rounding == Rounding::eager ? rounded(double(out[c]), g.out_dtype) : double(out[c]);
          *result.lse.at(b, i, head) = double(w.lse);
        }
    }
  return result;
}

/// Adds one row's share of every gradient.
void backward_row(const Case& p, int b, int head, int i, Cache<double>& cache, const double* dout,
                  double dlse, Gradients& d) {
  const core::Geometry& g = p.geometry;
  const Weights<double> w = weights_of<double>(p, b, head, i, cache);
  const Row<double> query = read_query<double>(p, b, i, head);
  Row<double> dweight(w.weight.size());
  double delta = 0;
  for (int j = 0; j < int(w.weight.size()); ++j) {
    if (!w.seen[std::size_t(j)]) continue;
    const Row<double>& value = cache.value(j);
    double* dv = d.dv.at(b, j, g.kv_head(head));
    for (int c = 0; c < g.value_dim; ++c) {
      dweight[std::size_t(j)] += dout[c] * value[std::size_t(c)];
      dv[c] += w.weight[std::size_t(j)] * dout[c];
    }
    delta += w.weight[std::size_t(j)] * dweight[std::size_t(j)];
  }
  for (int j = 0; j < int(w.weight.size()); ++j) {
    if (!w.seen[std::size_t(j)]) continue;
    const Slopes& slopes = w.slopes[std::size_t(j)];
    const double dscore = w.weight[std::size_t(j)] * (dweight[std::size_t(j)] - delta + dlse);
    if (const TensorView& bias = p.tensors.bias) {
      const TensorView own(nullptr, bias.dtype(), bias.shape());
      d.dbias[std::size_t(bias_offset(own, b, head, i, j))] += dscore * slopes.after_bias;
    }
    const double ddot = g.scale * dscore * slopes.before_bias * slopes.after_bias;
    double* dq = d.dq.at(b, i, head);
    double* dk = d.dk.at(b, j, g.kv_head(head));
    for (int c = 0; c < g.head_dim; ++c) {
      dq[c] += ddot * cache.key(j)[std::size_t(c)];
      dk[c] += ddot * query[std::size_t(c)];
    }
  }
  if (!d.dsinks.empty()) d.dsinks[std::size_t(head)] += w.sink * (dlse - delta);
}

}  // namespace

Result forward(const Case& p) { return attend<double>(p, Rounding::none); }

Result eager(const Case& p) {
  return p.geometry.computes_in_double() ? attend<double>(p, Rounding::eager)
                                         : attend<float>(p, Rounding::eager);
}

Gradients backward(const Case& p, const Table& dout, const Table* dlse) {
  const core::Geometry& g = p.geometry;
  const std::vector<int> rows = lengths(g, &core::Sequence::query_length);
  const std::vector<int> keys = lengths(g, &core::Sequence::key_length);
  Gradients d{Table(rows, g.query_heads, g.head_dim),
              Table(keys, g.kv_heads, g.head_dim),
              Table(keys, g.kv_heads, g.value_dim),
              {},
              {}};
  if (p.tensors.sinks) d.dsinks.assign(std::size_t(g.query_heads), 0);
  if (p.tensors.bias) d.dbias.assign(std::size_t(p.tensors.bias.element_count()), 0);
  for (int b = 0; b < g.batch; ++b)
    for (int kv_head = 0; kv_head < g.kv_heads; ++kv_head) {
      Cache<double> cache(p, b, kv_head);
      for (int head = kv_head * g.group(); head < (kv_head + 1) * g.group(); ++head)
        for (int i = 0; i < rows[std::size_t(b)]; ++i)
          backward_row(p, b, head, i, cache, dout.at(b, i, head), dlse ? *dlse->at(b, i, head) : 0,
                       d);
    }
  return d;
}

double element(const TensorView& tensor, std::int64_t i) {
  switch (tensor.dtype()) {
    case DType::f64: return tensor.as<double>()[i];
    case DType::f32: return double(tensor.as<float>()[i]);
    case DType::f16: return double(to_float(tensor.as<float16>()[i]));
    case DType::bf16: return double(to_float(tensor.as<bfloat16>()[i]));
    case DType::e4m3: return double(to_float(tensor.as<float8_e4m3>()[i]));
    case DType::e5m2: return double(to_float(tensor.as<float8_e5m2>()[i]));
    default:
      throw Error(ErrorCode::dtype_mismatch, "an element read as a number is " +
                                                 std::string(name(tensor.dtype())) +
                                                 ": it must be a floating-point type");
  }
}

double rounded(double x, DType type) {
  switch (type) {
    case DType::f64: return x;
    case DType::f16: return double(to_float(round_to<float16>(float(x))));
    case DType::bf16: return double(to_float(round_to<bfloat16>(float(x))));
    case DType::e4m3: return double(to_float(round_to<float8_e4m3>(float(x))));
    case DType::e5m2: return double(to_float(round_to<float8_e5m2>(float(x))));
    default: return double(float(x));
  }
}

}  // namespace tilefold::reference
