// From a problem as given to a geometry that nobody needs to check again.
#include <algorithm>
#include <cmath>
#include <string>

#include "core/each_tensor.hpp"
#include "core/geometry.hpp"
#include "core/lengths.hpp"
#include "tilefold/error.hpp"

namespace tilefold::core {

namespace {

constexpr int max_head_dim = 1024;

[[noreturn]] void refuse(ErrorCode code, const std::string& message) { throw Error(code, message); }

std::string is(const char* name, const TensorView& tensor) {
  return std::string(name) + " is " + tensor.to_string() + ": ";
}

void require_rank(const char* name, const TensorView& tensor, int low, int high,
                  const std::string& shape) {
  if (tensor.rank() < low || tensor.rank() > high)
    refuse(ErrorCode::shape_mismatch, is(name, tensor) + "it must be " + shape);
}

void require_extent(const char* name, const TensorView& tensor, int axis, std::int64_t extent,
                    const std::string& meaning) {
  if (tensor.dim(axis) != extent)
    refuse(ErrorCode::shape_mismatch, is(name, tensor) + "axis " + std::to_string(axis) +
                                          " must be " + std::to_string(extent) + ", " + meaning);
}

void require_dtype(const char* name, const TensorView& tensor,
                   std::initializer_list<DType> allowed) {
  std::string names;
  for (const DType type : allowed) {
    if (tensor.dtype() == type) return;
    names += (names.empty() ? "" : " or ") + std::string(tilefold::name(type));
  }
  refuse(ErrorCode::dtype_mismatch, is(name, tensor) + "its dtype must be " + names);
}

void require_dense_rows(const char* name, const TensorView& tensor) {
  const int last = tensor.rank() - 1;
  if (tensor.dim(last) > 1 && tensor.stride(last) != 1)
    refuse(ErrorCode::stride_unsupported,
           is(name, tensor) + "the last axis must be contiguous (stride 1)");
}

std::int64_t checked_size(const char* name, std::int64_t size, std::int64_t limit) {
  if (size > limit)
    refuse(ErrorCode::shape_mismatch, std::string(name) + " is " + std::to_string(size) +
                                          ": at most " + std::to_string(limit) + " is supported");
  return size;
}

class Resolver {
 public:
  explicit Resolver(const Problem& problem) : t_(problem.tensors), o_(problem.options) {}

  Geometry run() {
    check_presence();
    check_devices();
    check_layouts();
    check_heads_and_dims();
    check_dtypes();
    check_length_tensors();
    check_options();
    check_side_tensors();
    read_lengths();
    check_outputs();
    check_bias_extent();
    check_formulas();
    return std::move(g_);
  }

 private:
  void check_presence();
  void check_devices();
  void check_layouts();
  void check_paged_pool();
  void check_heads_and_dims();
  void check_dtypes();
  void check_length_tensors();
  void check_page_table();
  void check_options();
  void check_side_tensors();
  void check_descale(const char* name, const Descale& descale, const TensorView& tensor,
                     bool query);
  void check_descale_shape(const char* name, const Descale& descale, const TensorView& tensor,
                           bool query);
  void read_lengths();
  void check_outputs();
  void check_bias_extent();
  void check_formulas();
  void require_device(const TensorView* side_tensor, const char* formula) const;
  bool paged() const { return g_.key_layout == KeyLayout::paged; }

  const Tensors& t_;
  const Options& o_;
  TensorView value_;
  Geometry g_;
};

void Resolver::check_presence() {
  if (!t_.query.present()) refuse(ErrorCode::missing_argument, "query is absent");
  if (!t_.key.present()) refuse(ErrorCode::missing_argument, "key is absent");
  if (!t_.out.present()) refuse(ErrorCode::missing_argument, "out is absent");
  require_rank("query", t_.query, 3, 4, "[B, Sq, Hq, D], or [total_q, Hq, D] with cu_seqlens_q");
  require_rank("key", t_.key, 3, 4,
               "[B, Sk, Hkv, D], [total_k, Hkv, D] with cu_seqlens_k, or a pool of pages");
  if (o_.value_source == ValueSource::own) {
    if (!t_.value.present()) refuse(ErrorCode::missing_argument, "value is absent");
    if (o_.value_dim != 0)
      refuse(ErrorCode::conflicting_argument,
             "value_dim is " + std::to_string(o_.value_dim) +
                 ": it belongs to ValueSource::view_of_key and must be 0 here");
  } else {
    if (t_.value.present())
      refuse(ErrorCode::conflicting_argument,
             is("value", t_.value) + "it must be absent with ValueSource::view_of_key");
    const std::int64_t width = t_.key.dim(t_.key.rank() - 1);
    if (o_.value_dim < 1 || o_.value_dim > width)
      refuse(ErrorCode::shape_mismatch, "value_dim is " + std::to_string(o_.value_dim) +
                                            ": a view of the key has 1 to " +
                                            std::to_string(width) + " columns");
    if (t_.value_descale.scale.present())
      refuse(ErrorCode::conflicting_argument,
             "value_descale is present: a value that is a view of the key uses key_descale");
  }
  value_ = value_of(t_, o_);
}

void Resolver::check_devices() {
  each_tensor(t_, [](const NamedTensor& named, std::size_t) {
    const Device where = named.tensor->device();
    if (named.tensor->present() && where.index < 0)
      refuse(ErrorCode::device_mismatch, std::string(named.name) + " is on " + to_string(where) +
                                             ": devices are counted from 0");
  });
  const Device device = t_.query.device();
  const std::pair<const char*, const TensorView*> all[] = {
      {"key", &t_.key},
      {"value", &value_},
      {"out", &t_.out},
      {"lse", &t_.lse},
      {"sinks", &t_.sinks},
      {"alibi_slopes", &t_.alibi_slopes},
      {"bias", &t_.bias},
      {"query_descale", &t_.query_descale.scale},
      {"key_descale", &t_.key_descale.scale},
      {"value_descale", &t_.value_descale.scale}};
  for (const auto& [name, tensor] : all)
    if (tensor->present() && tensor->device() != device)
      refuse(ErrorCode::device_mismatch, std::string(name) + " is on " +
                                             to_string(tensor->device()) + ": query is on " +
                                             to_string(device) + ", and all must be together");
}

void Resolver::check_layouts() {
  g_.query_layout = t_.query.rank() == 4 ? QueryLayout::dense : QueryLayout::ragged;
  g_.key_layout = t_.pages.present()   ? KeyLayout::paged
                  : t_.key.rank() == 4 ? KeyLayout::dense
                                       : KeyLayout::ragged;
  const auto pair = [](const char* lengths, bool present, const char* tensor, bool ragged) {
    if (ragged && !present)
      refuse(ErrorCode::missing_argument,
             std::string(lengths) + " is absent: a " + tensor + " of 3 axes needs it");
    if (!ragged && present)
      refuse(ErrorCode::conflicting_argument,
             std::string(lengths) + " is present: only a ragged " + tensor + " (3 axes) has it");
  };
  pair("cu_seqlens_q", t_.cu_seqlens_q.present(), "query", g_.query_layout == QueryLayout::ragged);
  pair("cu_seqlens_k", t_.cu_seqlens_k.present(), "key", g_.key_layout == KeyLayout::ragged);
  require_dense_rows("query", t_.query);
  require_dense_rows("key", t_.key);
  require_dense_rows("value", value_);
  if (value_.rank() != t_.key.rank())
    refuse(ErrorCode::shape_mismatch,
           is("value", value_) + "it must have the axes of key, " + t_.key.to_string());
  for (int axis = 0; axis < t_.key.rank() - 1; ++axis)
    require_extent("value", value_, axis, t_.key.dim(axis), "as in key");
  if (paged()) check_paged_pool();
  if (g_.query_layout == QueryLayout::ragged) {
    require_rank("cu_seqlens_q", t_.cu_seqlens_q, 1, 1, "[B + 1]");
    if (t_.cu_seqlens_q.dim(0) < 1)
      refuse(ErrorCode::shape_mismatch, is("cu_seqlens_q", t_.cu_seqlens_q) + "it must be [B + 1]");
    g_.batch = int(checked_size("the batch", t_.cu_seqlens_q.dim(0) - 1, INT32_MAX));
  } else {
    g_.batch = int(checked_size("the batch", t_.query.dim(0), INT32_MAX));
  }
  if (g_.key_layout == KeyLayout::dense)
    require_extent("key", t_.key, 0, g_.batch, "the number of sequences");
}

void Resolver::check_paged_pool() {
  if (t_.key.rank() != 4)
    refuse(ErrorCode::shape_mismatch,
           is("key", t_.key) +
               "with a page table it must be [pages, page_size, Hkv, D] (NHD) or "
               "[pages, Hkv, page_size, D] (HND)");
  const int slot_axis = o_.page_layout == PageLayout::nhd ? 1 : 2;
  g_.pages = checked_size("the number of pages", t_.key.dim(0), INT32_MAX);
  g_.page_size = int(checked_size("the page size", t_.key.dim(slot_axis), 1 << 20));
  if (g_.page_size < 1)
    refuse(ErrorCode::shape_mismatch, is("key", t_.key) + "pages must hold at least one key");
}

void Resolver::check_heads_and_dims() {
  const bool hnd = paged() && o_.page_layout == PageLayout::hnd;
  g_.query_heads = int(checked_size("query_heads", t_.query.dim(t_.query.rank() - 2), 1 << 20));
  g_.kv_heads = int(checked_size("kv_heads", t_.key.dim(hnd ? 1 : t_.key.rank() - 2), 1 << 20));
  if (g_.query_heads < 1 || g_.kv_heads < 1 || g_.query_heads % g_.kv_heads != 0)
    refuse(ErrorCode::head_mismatch,
           "query_heads is " + std::to_string(g_.query_heads) + ", kv_heads is " +
               std::to_string(g_.kv_heads) +
               ": both must be at least 1 and query_heads a multiple of kv_heads");
  const std::int64_t dim = t_.query.dim(t_.query.rank() - 1);
  const std::int64_t value_dim = value_.dim(value_.rank() - 1);
  require_extent("key", t_.key, t_.key.rank() - 1, dim, "the head dimension of query");
  if (dim < 1 || dim > max_head_dim)
    refuse(ErrorCode::shape_mismatch, is("query", t_.query) + "head dimensions run from 1 to 1024");
  if (value_dim < 1 || value_dim > max_head_dim)
    refuse(ErrorCode::shape_mismatch, is("value", value_) + "head dimensions run from 1 to 1024");
  g_.head_dim = int(dim);
  g_.value_dim = int(value_dim);
  g_.total_query_rows =
      g_.query_layout == QueryLayout::ragged ? t_.query.dim(0) : t_.query.dim(0) * t_.query.dim(1);
}

void Resolver::check_dtypes() {
  g_.query_dtype = t_.query.dtype();
  g_.key_dtype = t_.key.dtype();
  g_.value_dtype = value_.dtype();
  const DType q = g_.query_dtype;
  if (!is_float(q))
    refuse(ErrorCode::dtype_mismatch,
           is("query", t_.query) + "its dtype must be f64, f32, f16, bf16, e4m3 or e5m2");
  const auto check_pair = [&](const char* name, DType cache) {
    const bool same = cache == q;
    const bool sixteen_over_eight = (q == DType::f16 || q == DType::bf16) && is_fp8(cache);
    if (same || sixteen_over_eight || (is_fp8(q) && is_fp8(cache))) return;
    if (cache == DType::i8 || cache == DType::u8)
      refuse(ErrorCode::unsupported, std::string(name) + " is " + tilefold::name(cache) +
                                         ": integer caches are computed by no backend yet");
    refuse(ErrorCode::dtype_mismatch,
           std::string(name) + " is " + tilefold::name(cache) + " under a query of " +
               tilefold::name(q) +
               ": it must have the query's dtype, or be e4m3 or e5m2 under f16, bf16 or fp8");
  };
  check_pair("key", g_.key_dtype);
  check_pair("value", g_.value_dtype);
}

void check_lengths_tensor(const char* name, const TensorView& tensor, std::int64_t entries) {
  require_rank(name, tensor, 1, 1, "[" + std::to_string(entries) + "]");
  require_extent(name, tensor, 0, entries,
                 "one entry a sequence (cu_seqlens and indptr: one more)");
  require_dtype(name, tensor, {DType::i32, DType::i64});
  if (tensor.device() == Device::cpu() && tensor.data() == nullptr && entries > 0)
    refuse(ErrorCode::missing_argument, std::string(name) + " has a null pointer: plan() reads it");
}

void Resolver::check_length_tensors() {
  const std::int64_t batch = g_.batch;
  if (t_.cu_seqlens_q.present()) check_lengths_tensor("cu_seqlens_q", t_.cu_seqlens_q, batch + 1);
  if (t_.cu_seqlens_k.present()) check_lengths_tensor("cu_seqlens_k", t_.cu_seqlens_k, batch + 1);
  if (t_.query_lengths.present()) {
    if (g_.query_layout == QueryLayout::ragged)
      refuse(ErrorCode::conflicting_argument,
             "query_lengths is present: a ragged query has cu_seqlens_q instead");
    check_lengths_tensor("query_lengths", t_.query_lengths, batch);
  }
  if (t_.key_lengths.present()) {
    if (g_.key_layout == KeyLayout::ragged)
      refuse(ErrorCode::conflicting_argument,
             "key_lengths is present: a ragged key has cu_seqlens_k instead");
    check_lengths_tensor("key_lengths", t_.key_lengths, batch);
  }
  if (paged()) check_page_table();
  if (!o_.positions && (t_.query_starts.present() || t_.key_starts.present()))
    refuse(ErrorCode::missing_argument,
           "query_starts or key_starts is present: they need options.positions");
  if (t_.query_starts.present()) check_lengths_tensor("query_starts", t_.query_starts, batch);
  if (t_.key_starts.present()) check_lengths_tensor("key_starts", t_.key_starts, batch);
  for (const TensorView* tensor :
       {&t_.cu_seqlens_q, &t_.cu_seqlens_k, &t_.query_lengths, &t_.key_lengths, &t_.pages.table,
        &t_.pages.indptr, &t_.pages.indices, &t_.pages.last_page_size, &t_.query_starts,
        &t_.key_starts})
    if (tensor->present() && tensor->device() != Device::cpu()) g_.lengths_on_device = true;
}

void Resolver::check_page_table() {
  const PageTable& pages = t_.pages;
  if (pages.table.present() &&
      (pages.indptr.present() || pages.indices.present() || pages.last_page_size.present()))
    refuse(ErrorCode::conflicting_argument,
           "pages has both a table and indptr, indices, last_page_size: give one form");
  if (pages.table.present()) {
    require_rank("page table", pages.table, 2, 2, "[B, max_pages]");
    require_extent("page table", pages.table, 0, g_.batch, "the number of sequences");
    require_dtype("page table", pages.table, {DType::i32});
    if (!t_.key_lengths.present())
      refuse(ErrorCode::missing_argument,
             "key_lengths is absent: a page table [B, max_pages] needs it");
    if (o_.capacity.pages_per_row && pages.table.dim(1) > *o_.capacity.pages_per_row)
      refuse(ErrorCode::capacity_exceeded, is("page table", pages.table) +
                                               "capacity.pages_per_row is " +
                                               std::to_string(*o_.capacity.pages_per_row));
    return;
  }
  if (!pages.indices.present() || !pages.last_page_size.present())
    refuse(ErrorCode::missing_argument, "pages.indptr needs indices and last_page_size beside it");
  if (t_.key_lengths.present())
    refuse(ErrorCode::conflicting_argument,
           "key_lengths is present: indptr and last_page_size already set the lengths");
  check_lengths_tensor("page indptr", pages.indptr, g_.batch + 1);
  check_lengths_tensor("last_page_size", pages.last_page_size, g_.batch);
  require_rank("page indices", pages.indices, 1, 1, "[pages in use]");
  require_dtype("page indices", pages.indices, {DType::i32});
}

void Resolver::check_options() {
  g_.scale = o_.scale.value_or(1.0 / std::sqrt(double(g_.head_dim)));
  if (!std::isfinite(g_.scale)) refuse(ErrorCode::invalid_argument, "scale is not finite");
  if (o_.softcap && (!(*o_.softcap > 0) || std::isinf(*o_.softcap)))
    refuse(ErrorCode::invalid_argument,
           "softcap is " + std::to_string(*o_.softcap) +
               ": it must be positive and finite; leave it out for none");
  if (o_.threads < 0)
    refuse(ErrorCode::invalid_argument,
           "threads is " + std::to_string(o_.threads) + ": it must be 0 (all cores) or more");
  if (o_.positions) {
    const Positions& p = *o_.positions;
    constexpr std::int64_t limit = std::int64_t{1} << 30;
    const auto small = [](std::int64_t x) { return x > -limit && x < limit; };
    if (p.query.stride == 0 || p.key.stride == 0 || !small(p.query.stride) || !small(p.key.stride))
      refuse(ErrorCode::invalid_argument, "position strides are " + std::to_string(p.query.stride) +
                                              " (query) and " + std::to_string(p.key.stride) +
                                              " (key): they must not be 0, nor reach 2^30");
    if (!small(p.offset) || !small(p.query.start) || !small(p.key.start))
      refuse(ErrorCode::invalid_argument, "positions.offset is " + std::to_string(p.offset) +
                                              ", starts are " + std::to_string(p.query.start) +
                                              " and " + std::to_string(p.key.start) +
                                              ": they must lie within +-2^30");
    g_.query_stride = int(p.query.stride);
    g_.key_stride = int(p.key.stride);
  }
  for (const auto& capacity :
       {o_.capacity.query_length, o_.capacity.key_length, o_.capacity.pages_per_row})
    if (capacity && *capacity < 0)
      refuse(ErrorCode::invalid_argument,
             "a capacity is " + std::to_string(*capacity) + ": capacities are 0 or more");
  if (o_.output == OutputKind::partial && t_.sinks.present())
    refuse(ErrorCode::conflicting_argument,
           "sinks are present with a partial output: a sink joins once, in merge()");
  if (o_.output == OutputKind::partial && !t_.lse.present())
    refuse(ErrorCode::missing_argument, "lse is absent: a partial output needs it");
  if (o_.output == OutputKind::partial && o_.reproducibility == Reproducibility::batch_invariant)
    refuse(ErrorCode::unsupported,
           "a partial output in batch-invariant mode: merges of (O, lse) are not batch-invariant");
}

void Resolver::check_side_tensors() {
  if (t_.sinks.present()) {
    require_rank("sinks", t_.sinks, 1, 1, "[query_heads]");
    require_extent("sinks", t_.sinks, 0, g_.query_heads, "the number of query heads");
    require_dtype("sinks", t_.sinks, {DType::f32});
  }
  if (t_.alibi_slopes.present()) {
    const TensorView& slopes = t_.alibi_slopes;
    require_rank("alibi_slopes", slopes, 1, 2, "[query_heads] or [B, query_heads]");
    require_extent("alibi_slopes", slopes, slopes.rank() - 1, g_.query_heads,
                   "the number of query heads");
    if (slopes.rank() == 2)
      require_extent("alibi_slopes", slopes, 0, g_.batch, "the number of sequences");
    require_dtype("alibi_slopes", slopes, {DType::f32});
  }
  if (t_.bias.present()) {
    require_rank("bias", t_.bias, 4, 4, "[B or 1, Hq or 1, Sq or 1, Sk or 1]");
    if (g_.computes_in_double())
      require_dtype("bias", t_.bias, {DType::f64, DType::f32, DType::f16, DType::bf16});
    else
      require_dtype("bias", t_.bias, {DType::f32, DType::f16, DType::bf16});
    require_dense_rows("bias", t_.bias);
  }
  check_descale("query_descale", t_.query_descale, t_.query, true);
  check_descale("key_descale", t_.key_descale, t_.key, false);
  check_descale("value_descale", t_.value_descale, value_, false);
}

void Resolver::check_descale(const char* name, const Descale& descale, const TensorView& tensor,
                             bool query) {
  if (!descale.scale.present()) return;
  if (!is_fp8(tensor.dtype()))
    refuse(ErrorCode::conflicting_argument, std::string(name) + " is present: its tensor is " +
                                                tensor.to_string() +
                                                ", and only e4m3 and e5m2 are descaled");
  require_dtype(name, descale.scale, {DType::f32});
  if (descale.per == Granularity::page && (query || !paged()))
    refuse(ErrorCode::conflicting_argument,
           std::string(name) + " is per page: only a paged key or value has pages");
  check_descale_shape(name, descale, tensor, query);
}

void Resolver::check_descale_shape(const char* name, const Descale& descale,
                                   const TensorView& tensor, bool query) {
  const std::int64_t heads = query ? g_.query_heads : g_.kv_heads;
  Extents wanted;
  switch (descale.per) {
    case Granularity::tensor:
      if (descale.scale.element_count() != 1)
        refuse(ErrorCode::shape_mismatch,
               is(name, descale.scale) + "per tensor it has one element");
      return;
    case Granularity::head: wanted = {heads}; break;
    case Granularity::page: wanted = {g_.pages, heads}; break;
    case Granularity::token:
      if (!query && paged())
        wanted = {g_.pages, g_.page_size, heads};
      else if (tensor.rank() == 4)
        wanted = {tensor.dim(0), tensor.dim(1), heads};
      else
        wanted = {tensor.dim(0), heads};
      break;
  }
  if (descale.scale.shape() != wanted)
    refuse(ErrorCode::shape_mismatch, is(name, descale.scale) + "it must be " +
                                          TensorView(nullptr, DType::f32, wanted).to_string());
}

void Resolver::read_lengths() {
  if (g_.lengths_on_device) {
    if (!o_.capacity.query_length || !o_.capacity.key_length)
      refuse(ErrorCode::missing_argument,
             "lengths are on a device: capacity.query_length and capacity.key_length are needed");
    g_.max_query_length =
        int(checked_size("capacity.query_length", *o_.capacity.query_length, 1 << 30));
    g_.max_key_length = int(checked_size("capacity.key_length", *o_.capacity.key_length, 1 << 30));
    return;
  }
  if (g_.query_layout == QueryLayout::ragged && index_at(t_.cu_seqlens_q, 0) != 0)
    refuse(ErrorCode::length_invalid, "cu_seqlens_q[0] is " +
                                          std::to_string(index_at(t_.cu_seqlens_q, 0)) +
                                          ": the first entry must be 0");
  g_.sequences.reserve(std::size_t(g_.batch));
  for (int b = 0; b < g_.batch; ++b) {
    g_.sequences.push_back(read_sequence(g_, t_, o_, b));
    g_.max_query_length = std::max(g_.max_query_length, g_.sequences.back().query_length);
    g_.max_key_length = std::max(g_.max_key_length, g_.sequences.back().key_length);
    if (paged()) check_pages(g_, t_, o_, b);
  }
}

void Resolver::check_outputs() {
  const TensorView& out = t_.out;
  g_.out_dtype = out.dtype();
  const DType state = g_.computes_in_double() ? DType::f64 : DType::f32;
  if (o_.output == OutputKind::partial)
    require_dtype("out (partial)", out, {state});
  else if (g_.computes_in_double())
    require_dtype("out", out, {DType::f64, DType::f32, DType::f16, DType::bf16});
  else
    require_dtype("out", out, {DType::f32, DType::f16, DType::bf16});
  if (out.rank() != t_.query.rank())
    refuse(ErrorCode::shape_mismatch,
           is("out", out) + "it must have the axes of query, " + t_.query.to_string());
  for (int axis = 0; axis < out.rank() - 1; ++axis)
    require_extent("out", out, axis, t_.query.dim(axis), "as in query");
  require_extent("out", out, out.rank() - 1, g_.value_dim, "the head dimension of value");
  require_dense_rows("out", out);
  if (!t_.lse.present()) return;
  require_dtype("lse", t_.lse, {state});
  const Extents wanted = g_.query_layout == QueryLayout::dense
                             ? Extents{g_.batch, g_.query_heads, t_.query.dim(1)}
                             : Extents{g_.query_heads, t_.query.dim(0)};
  if (t_.lse.shape() != wanted)
    refuse(ErrorCode::shape_mismatch,
           is("lse", t_.lse) + "it must be " + TensorView(nullptr, state, wanted).to_string());
}

void Resolver::check_bias_extent() {
  if (!t_.bias.present()) return;
  const auto check = [&](int axis, std::int64_t needed, const char* meaning) {
    const std::int64_t extent = t_.bias.dim(axis);
    // A dense axis fits exactly; where sequences differ in length the longest must fit.
    const bool exact =
        axis < 2 ||
        (axis == 2 ? g_.query_layout == QueryLayout::dense && !t_.query_lengths.present()
                   : g_.key_layout == KeyLayout::dense && !t_.key_lengths.present());
    if (extent == needed || (extent == 1 && needed > 0) || (!exact && extent >= needed)) return;
    refuse(ErrorCode::shape_mismatch, is("bias", t_.bias) + "axis " + std::to_string(axis) +
                                          " must be 1 or " + (exact ? "" : "at least ") +
                                          std::to_string(needed) + ", " + meaning);
  };
  check(0, g_.batch, "the number of sequences");
  check(1, g_.query_heads, "the number of query heads");
  check(2, g_.max_query_length, "the number of queries");
  check(3, g_.max_key_length, "the number of keys");
}

void Resolver::check_formulas() {
  score::Extent extent{g_.batch, g_.query_heads, 0, 0, g_.kv_heads};
  if (g_.lengths_on_device)
    extent = {g_.batch, g_.query_heads, g_.max_query_length, g_.max_key_length, g_.kv_heads};
  for (int b = 0; b < int(g_.sequences.size()); ++b) {
    const Sequence& s = g_.sequences[std::size_t(b)];
    if (s.query_length == 0 || s.key_length == 0) continue;
    const auto reach = [](std::int64_t a, std::int64_t b_) { return std::max(a, b_) + 1; };
    extent.query_positions =
        std::max(extent.query_positions,
                 reach(g_.query_position(b, 0), g_.query_position(b, s.query_length - 1)));
    extent.key_positions = std::max(
        extent.key_positions, reach(g_.key_position(b, 0), g_.key_position(b, s.key_length - 1)));
  }
  if (o_.mask.node()) {
    o_.mask.node()->require_fit(extent);
    require_device(o_.mask.node()->device_tensor(), "options.mask");
  }
  if (o_.score.node()) {
    o_.score.node()->require_fit(extent);
    require_device(o_.score.node()->device_tensor(), "options.score");
  }
}

/// Of a formula's side tensor, if one lies on a device: those on the host go anywhere.
void Resolver::require_device(const TensorView* side_tensor, const char* formula) const {
  if (side_tensor == nullptr || side_tensor->device() == t_.query.device()) return;
  refuse(ErrorCode::device_mismatch, std::string(formula) + " reads a side tensor on " +
                                         to_string(side_tensor->device()) + ": query is on " +
                                         to_string(t_.query.device()));
}

}  // namespace

Geometry resolve(const Problem& problem) { return Resolver(problem).run(); }

}  // namespace tilefold::core
