// Every mistake that the host can see is refused before anything is written, in one error that
// names the argument, what it is and what it had to be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "tilefold/attention.hpp"

namespace tilefold {
namespace {

using ::testing::HasSubstr;

// Memory of a small right problem: 2 sequences, 4 query heads over 2 KV heads, head dimension 8,
// 3 queries and 5 keys a sequence (6 and 10 rows where ragged; pages of 4 keys, 6 pages).
struct Memory {
  static constexpr int batch = 2, queries = 3, keys = 5, heads = 4, kv_heads = 2, dim = 8;
  static constexpr int pages = 6, page_size = 4;
  std::vector<float> q = std::vector<float>(batch * queries * heads * dim, 0.5f);
  std::vector<float> k = std::vector<float>(pages * page_size * kv_heads * dim, 0.25f);
  std::vector<float> v = std::vector<float>(pages * page_size * kv_heads * dim, 0.75f);
  std::vector<float> out = std::vector<float>(batch * queries * heads * dim, -7.0f);
  std::vector<float> lse = std::vector<float>(batch * queries * heads, -7.0f);
  std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(1024, 0x38);
  std::vector<float> scales = std::vector<float>(64, 1.0f);
  std::vector<float> sinks = {0, 0, 0, 0};
  std::vector<float> bias = std::vector<float>(batch * heads * queries * keys, 0.0f);
  std::vector<int> cu_q = {0, 3, 6}, cu_k = {0, 5, 10}, lengths = {3, 5}, short_lengths = {2, 3};
  std::vector<int> table = {0, 1, 2, 3}, indptr = {0, 2, 4}, indices = {0, 1, 2, 3}, last = {1, 1};

  bool untouched() const {
    for (const float x : out)
      if (x != -7.0f) return false;
    for (const float x : lse)
      if (x != -7.0f) return false;
    return true;
  }

  Problem dense() {
    Problem p;
    p.tensors.query = TensorView(q.data(), {batch, queries, heads, dim});
    p.tensors.key = TensorView(k.data(), {batch, keys, kv_heads, dim});
    p.tensors.value = TensorView(v.data(), {batch, keys, kv_heads, dim});
    p.tensors.out = OutputView(out.data(), {batch, queries, heads, dim});
    p.tensors.lse = OutputView(lse.data(), {batch, heads, queries});
    p.options.threads = 1;
    return p;
  }
  Problem ragged() {
    Problem p = dense();
    p.tensors.query = TensorView(q.data(), {batch * queries, heads, dim});
    p.tensors.key = TensorView(k.data(), {batch * keys, kv_heads, dim});
    p.tensors.value = TensorView(v.data(), {batch * keys, kv_heads, dim});
    p.tensors.out = OutputView(out.data(), {batch * queries, heads, dim});
    p.tensors.lse = OutputView(lse.data(), {heads, batch * queries});
    p.tensors.cu_seqlens_q = TensorView(cu_q.data(), {3});
    p.tensors.cu_seqlens_k = TensorView(cu_k.data(), {3});
    return p;
  }
  Problem paged() {
    Problem p = dense();
    p.tensors.key = TensorView(k.data(), {pages, page_size, kv_heads, dim});
    p.tensors.value = TensorView(v.data(), {pages, page_size, kv_heads, dim});
    p.tensors.pages.table = TensorView(table.data(), {2, 2});
    p.tensors.key_lengths = TensorView(lengths.data(), {2});
    return p;
  }
  Problem listed() {
    Problem p = paged();
    p.tensors.key_lengths = TensorView();
    p.tensors.pages = {TensorView(), TensorView(indptr.data(), {3}),
                       TensorView(indices.data(), {4}), TensorView(last.data(), {2})};
    return p;
  }
  Problem fp8() {
    Problem p = dense();
    p.tensors.query = TensorView(codes.data(), DType::e4m3, {batch, queries, heads, dim});
    p.tensors.key = TensorView(codes.data(), DType::e4m3, {batch, keys, kv_heads, dim});
    p.tensors.value = TensorView(codes.data(), DType::e4m3, {batch, keys, kv_heads, dim});
    return p;
  }
};

struct Refusal {
  const char* name;
  ErrorCode code;
  const char* message;
  std::function<Problem(Memory&)> problem;
};

std::ostream& operator<<(std::ostream& stream, const Refusal& r) { return stream << r.name; }

using M = Memory;

// Changes one thing of a right problem.
template <Problem (Memory::*base)()>
std::function<Problem(Memory&)> with(std::function<void(Memory&, Tensors&, Options&)> change) {
  return [change](Memory& m) {
    Problem p = (m.*base)();
    change(m, p.tensors, p.options);
    return p;
  };
}
constexpr auto dense = with<&Memory::dense>;
constexpr auto ragged = with<&Memory::ragged>;
constexpr auto paged = with<&Memory::paged>;
constexpr auto listed = with<&Memory::listed>;
constexpr auto fp8 = with<&Memory::fp8>;

std::vector<Refusal> presence_and_shape() {
  using E = ErrorCode;
  return {
      {"query_absent", E::missing_argument, "query is absent",
       dense([](M&, Tensors& t, Options&) { t.query = {}; })},
      {"key_absent", E::missing_argument, "key is absent",
       dense([](M&, Tensors& t, Options&) { t.key = {}; })},
      {"value_absent", E::missing_argument, "value is absent",
       dense([](M&, Tensors& t, Options&) { t.value = {}; })},
      {"out_absent", E::missing_argument, "out is absent",
       dense([](M&, Tensors& t, Options&) { t.out = {}; })},
      {"query_rank", E::shape_mismatch, "query is f32 [24, 8]: it must be [B, Sq, Hq, D]",
       dense([](M& m, Tensors& t, Options&) {
         t.query = TensorView(m.q.data(), {24, 8});
       })},
      {"batch", E::shape_mismatch, "axis 0 must be 2, the number of sequences",
       dense([](M& m, Tensors& t, Options&) {
         t.key = TensorView(m.k.data(), {1, 5, 2, 8});
         t.value = TensorView(m.v.data(), {1, 5, 2, 8});
       })},
      {"heads", E::head_mismatch, "query_heads is 4, kv_heads is 3",
       dense([](M& m, Tensors& t, Options&) {
         t.key = TensorView(m.k.data(), {2, 5, 3, 8});
         t.value = TensorView(m.v.data(), {2, 5, 3, 8});
       })},
      {"no_heads", E::head_mismatch, "both must be at least 1",
       dense([](M& m, Tensors& t, Options&) {
         t.key = TensorView(m.k.data(), {2, 5, 0, 8});
         t.value = TensorView(m.v.data(), {2, 5, 0, 8});
       })},
      {"head_dim", E::shape_mismatch, "axis 3 must be 8, the head dimension of query",
       dense([](M& m, Tensors& t, Options&) {
         t.key = TensorView(m.k.data(), {2, 5, 2, 4});
       })},
      {"head_dim_large", E::shape_mismatch, "head dimensions run from 1 to 1024",
       dense([](M&, Tensors& t, Options&) {
         t.query = TensorView(nullptr, DType::f32, {2, 3, 4, 1025});
         t.key = TensorView(nullptr, DType::f32, {2, 5, 2, 1025});
       })},
      {"value_rows", E::shape_mismatch, "value is f32 [2, 4, 2, 8]: axis 1 must be 5",
       dense([](M& m, Tensors& t, Options&) {
         t.value = TensorView(m.v.data(), {2, 4, 2, 8});
       })},
      {"out_shape", E::shape_mismatch, "axis 3 must be 8, the head dimension of value",
       dense([](M& m, Tensors& t, Options&) {
         t.out = OutputView(m.out.data(), {2, 3, 4, 4});
       })},
      {"lse_shape", E::shape_mismatch, "lse is f32 [2, 3, 4]: it must be f32 [2, 4, 3]",
       dense([](M& m, Tensors& t, Options&) {
         t.lse = OutputView(m.lse.data(), {2, 3, 4});
       })},
      {"last_axis_strided", E::stride_unsupported, "key is f32 [2, 5, 2, 4]",
       dense([](M& m, Tensors& t, Options&) {
         t.query = TensorView(m.q.data(), {2, 3, 4, 4});
         t.key = TensorView(m.k.data(), {2, 5, 2, 4}, {80, 16, 8, 2});
       })},
      {"value_dim_alone", E::conflicting_argument, "value_dim is 4",
       dense([](M&, Tensors&, Options& o) { o.value_dim = 4; })},
      {"value_view_and_value", E::conflicting_argument, "must be absent with",
       dense([](M&, Tensors&, Options& o) {
         o.value_source = ValueSource::view_of_key;
         o.value_dim = 4;
       })},
      {"value_view_wide", E::shape_mismatch, "value_dim is 9: a view of the key has 1 to 8",
       dense([](M&, Tensors& t, Options& o) {
         t.value = {};
         o.value_source = ValueSource::view_of_key;
         o.value_dim = 9;
       })},
  };
}

std::vector<Refusal> dtypes_devices_memory() {
  using E = ErrorCode;
  return {
      {"query_integer", E::dtype_mismatch, "its dtype must be f64, f32, f16, bf16, e4m3 or e5m2",
       dense([](M& m, Tensors& t, Options&) {
         t.query = TensorView(m.q.data(), DType::i32, {2, 3, 4, 8});
       })},
      {"f32_over_bf16", E::dtype_mismatch, "key is bf16 under a query of f32",
       dense([](M& m, Tensors& t, Options&) {
         t.key = TensorView(m.k.data(), DType::bf16, {2, 5, 2, 8});
       })},
      {"bf16_over_f16", E::dtype_mismatch, "key is f16 under a query of bf16",
       dense([](M& m, Tensors& t, Options&) {
         t.query = TensorView(m.q.data(), DType::bf16, {2, 3, 4, 8});
         t.key = TensorView(m.k.data(), DType::f16, {2, 5, 2, 8});
       })},
      {"fp8_over_f16", E::dtype_mismatch, "value is f16 under a query of e4m3",
       fp8([](M& m, Tensors& t, Options&) {
         t.value = TensorView(m.v.data(), DType::f16, {2, 5, 2, 8});
       })},
      {"integer_cache", E::unsupported, "integer caches are computed by no backend yet",
       dense([](M& m, Tensors& t, Options&) {
         t.query = TensorView(m.q.data(), DType::bf16, {2, 3, 4, 8});
         t.key = TensorView(m.codes.data(), DType::i8, {2, 5, 2, 8});
       })},
      {"out_fp8", E::dtype_mismatch, "out is e4m3", dense([](M& m, Tensors& t, Options&) {
         t.out = OutputView(m.out.data(), DType::e4m3, {2, 3, 4, 8});
       })},
      {"lse_f64", E::dtype_mismatch, "lse is f64", dense([](M& m, Tensors& t, Options&) {
         t.lse = OutputView(m.lse.data(), DType::f64, {2, 4, 3});
       })},
      {"mixed_devices", E::device_mismatch, "key is on cuda:0: query is on cpu",
       dense([](M& m, Tensors& t, Options&) {
         t.key = TensorView(m.k.data(), DType::f32, {2, 5, 2, 8}, Device::cuda());
       })},
      {"negative_device", E::device_mismatch, "out is on cuda:-1: devices are counted from 0",
       dense([](M&, Tensors& t, Options&) {
         const auto moved = [](const TensorView& at) {
           return TensorView(at.data(), at.dtype(), at.shape(), Device::cuda(-1));
         };
         t.query = moved(t.query), t.key = moved(t.key), t.value = moved(t.value);
         t.out = OutputView(t.out.data(), DType::f32, t.out.shape(), Device::cuda(-1));
       })},
      {"negative_device_of_lengths", E::device_mismatch, "key_lengths is on cuda:-2: devices",
       dense([](M& m, Tensors& t, Options&) {
         t.key_lengths = TensorView(m.lengths.data(), DType::i32, {2}, Device::cuda(-2));
       })},
      {"cuda_backend", E::unsupported, "options.backend asks for cuda",
       dense([](M&, Tensors&, Options& o) { o.backend = Backend::cuda; })},
      {"lengths_on_device", E::unsupported, "the CPU backend reads them on the host",
       dense([](M& m, Tensors& t, Options& o) {
         t.key_lengths = TensorView(m.lengths.data(), DType::i32, {2}, Device::cuda());
         o.capacity.query_length = 3;
         o.capacity.key_length = 5;
       })},
      {"lengths_on_device_without_capacity", E::missing_argument, "capacity.key_length are needed",
       dense([](M& m, Tensors& t, Options&) {
         t.key_lengths = TensorView(m.lengths.data(), DType::i32, {2}, Device::cuda());
       })},
      {"query_null", E::missing_argument, "query has a null pointer",
       dense([](M&, Tensors& t, Options&) { t.query = t.query.with_data(nullptr); })},
      {"misaligned", E::misaligned, "query starts 2 bytes past a multiple of its element's 4 bytes",
       dense([](M& m, Tensors& t, Options&) {
         t.query = t.query.with_data(reinterpret_cast<const char*>(m.q.data()) + 2);
       })},
      {"out_is_query", E::overlap, "out shares memory with query",
       dense([](M& m, Tensors& t, Options&) {
         t.query = TensorView(m.out.data(), {2, 3, 4, 8});
       })},
      {"out_meets_lse", E::overlap, "out shares memory with lse",
       dense([](M& m, Tensors& t, Options&) {
         t.lse = OutputView(m.out.data() + 100, {2, 4, 3});
       })},
      {"out_meets_key_by_one_row", E::overlap, "out shares memory with key",
       dense([](M& m, Tensors& t, Options&) {
         t.key = TensorView(m.out.data() + 16, {2, 5, 2, 8});
       })},
      {"lse_is_sinks", E::overlap, "lse shares memory with sinks",
       dense([](M& m, Tensors& t, Options&) { t.sinks = TensorView(m.lse.data(), {4}); })},
      {"out_broadcast", E::overlap, "its elements share memory with each other",
       dense([](M& m, Tensors& t, Options&) {
         t.out = OutputView(m.out.data(), {2, 3, 4, 8}, {0, 32, 8, 1});
       })},
      {"out_rows_meet", E::overlap, "its elements share memory with each other",
       dense([](M& m, Tensors& t, Options&) {
         t.out = OutputView(m.out.data(), {2, 3, 4, 8}, {92, 30, 8, 1});
       })},
  };
}

std::vector<Refusal> lengths() {
  using E = ErrorCode;
  return {
      {"ragged_without_cu_seqlens", E::missing_argument, "cu_seqlens_q is absent",
       ragged([](M&, Tensors& t, Options&) { t.cu_seqlens_q = {}; })},
      {"dense_with_cu_seqlens", E::conflicting_argument, "cu_seqlens_k is present",
       dense([](M& m, Tensors& t, Options&) { t.cu_seqlens_k = TensorView(m.cu_k.data(), {3}); })},
      {"cu_seqlens_entries", E::shape_mismatch, "cu_seqlens_k is i32 [2]",
       ragged([](M& m, Tensors& t, Options&) { t.cu_seqlens_k = TensorView(m.cu_k.data(), {2}); })},
      {"cu_seqlens_dtype", E::dtype_mismatch, "its dtype must be i32 or i64",
       ragged([](M& m, Tensors& t, Options&) { t.cu_seqlens_q = TensorView(m.q.data(), {3}); })},
      {"cu_seqlens_start", E::length_invalid, "cu_seqlens_q[0] is 1: the first entry must be 0",
       ragged([](M& m, Tensors&, Options&) { m.cu_q[0] = 1; })},
      {"cu_seqlens_falls", E::length_invalid, "cu_seqlens_q[2] is 2: entries must not fall",
       ragged([](M& m, Tensors&, Options&) { m.cu_q[2] = 2; })},
      {"cu_seqlens_past_end", E::length_invalid, "cu_seqlens_k[2] is 11: the tensor has only 10",
       ragged([](M& m, Tensors&, Options&) { m.cu_k[2] = 11; })},
      {"cu_seqlens_negative", E::length_invalid, "cu_seqlens_k[1] is -1",
       ragged([](M& m, Tensors&, Options&) { m.cu_k[1] = -1; })},
      {"cu_seqlens_null", E::missing_argument, "cu_seqlens_q has a null pointer",
       ragged(
           [](M&, Tensors& t, Options&) { t.cu_seqlens_q = t.cu_seqlens_q.with_data(nullptr); })},
      {"query_lengths_ragged", E::conflicting_argument, "query_lengths is present",
       ragged([](M& m, Tensors& t, Options&) {
         t.query_lengths = TensorView(m.lengths.data(), {2});
       })},
      {"key_lengths_ragged", E::conflicting_argument, "key_lengths is present",
       ragged(
           [](M& m, Tensors& t, Options&) { t.key_lengths = TensorView(m.lengths.data(), {2}); })},
      {"key_length_past_end", E::length_invalid, "key_lengths[1] is 6: it must lie between 0 and 5",
       dense([](M& m, Tensors& t, Options&) {
         m.lengths[1] = 6;
         t.key_lengths = TensorView(m.lengths.data(), {2});
       })},
      {"query_length_negative", E::length_invalid, "query_lengths[0] is -1",
       dense([](M& m, Tensors& t, Options&) {
         m.short_lengths[0] = -1;
         t.query_lengths = TensorView(m.short_lengths.data(), {2});
       })},
      {"query_capacity", E::capacity_exceeded, "capacity.query_length is 2: sequence 0 has 3",
       ragged([](M&, Tensors&, Options& o) { o.capacity.query_length = 2; })},
      {"key_capacity", E::capacity_exceeded, "capacity.key_length is 4: sequence 0 has 5",
       dense([](M&, Tensors&, Options& o) { o.capacity.key_length = 4; })},
      {"page_capacity", E::capacity_exceeded, "capacity.pages_per_row is 1",
       paged([](M&, Tensors&, Options& o) { o.capacity.pages_per_row = 1; })},
      {"capacity_negative", E::invalid_argument, "a capacity is -1",
       dense([](M&, Tensors&, Options& o) { o.capacity.key_length = -1; })},
      {"page_past_pool", E::page_out_of_range, "entry 1 of sequence 1 is 6: its keys may be seen",
       paged([](M& m, Tensors&, Options&) { m.table[3] = 6; })},
      {"page_negative", E::page_out_of_range, "entry 0 of sequence 0 is -1",
       paged([](M& m, Tensors&, Options&) { m.table[0] = -1; })},
      {"listed_page_past_pool", E::page_out_of_range, "entry 0 of sequence 1 is 99",
       listed([](M& m, Tensors&, Options&) { m.indices[2] = 99; })},
      {"table_rows", E::shape_mismatch, "page table is i32 [1, 4]",
       paged([](M& m, Tensors& t, Options&) {
         t.pages.table = TensorView(m.table.data(), {1, 4});
       })},
      {"table_without_lengths", E::missing_argument, "key_lengths is absent",
       paged([](M&, Tensors& t, Options&) { t.key_lengths = {}; })},
      {"table_too_short", E::length_invalid, "key_lengths[1] is 9: it must lie between 0 and 8",
       paged([](M& m, Tensors&, Options&) { m.lengths[1] = 9; })},
      {"both_tables", E::conflicting_argument, "give one form",
       paged(
           [](M& m, Tensors& t, Options&) { t.pages.indptr = TensorView(m.indptr.data(), {3}); })},
      {"list_incomplete", E::missing_argument, "needs indices and last_page_size",
       listed([](M&, Tensors& t, Options&) { t.pages.indices = {}; })},
      {"list_and_lengths", E::conflicting_argument, "already set the lengths",
       listed(
           [](M& m, Tensors& t, Options&) { t.key_lengths = TensorView(m.lengths.data(), {2}); })},
      {"last_page_full", E::length_invalid, "last_page_size[1] is 5: it must lie between 1 and",
       listed([](M& m, Tensors&, Options&) { m.last[1] = 5; })},
      {"last_page_of_none", E::length_invalid, "last_page_size[0] is 1: a sequence without pages",
       listed([](M& m, Tensors&, Options&) { m.indptr[1] = 0; })},
      {"indptr_falls", E::length_invalid, "page indptr[2] is 1: entries must not fall",
       listed([](M& m, Tensors&, Options&) { m.indptr[2] = 1; })},
      {"starts_without_positions", E::missing_argument, "they need options.positions",
       dense(
           [](M& m, Tensors& t, Options&) { t.query_starts = TensorView(m.lengths.data(), {2}); })},
  };
}

std::vector<Refusal> options() {
  using E = ErrorCode;
  return {
      {"scale_nan", E::invalid_argument, "scale is not finite",
       dense([](M&, Tensors&, Options& o) { o.scale = NAN; })},
      {"softcap_zero", E::invalid_argument, "softcap is 0",
       dense([](M&, Tensors&, Options& o) { o.softcap = 0.0; })},
      {"softcap_negative", E::invalid_argument, "leave it out for none",
       dense([](M&, Tensors&, Options& o) { o.softcap = -1.0; })},
      {"threads", E::invalid_argument, "threads is -1",
       dense([](M&, Tensors&, Options& o) { o.threads = -1; })},
      {"position_stride", E::invalid_argument, "position strides are 0",
       dense([](M&, Tensors&, Options& o) {
         o.positions = Positions{{0, 0}, {0, 1}, 0};
       })},
      {"positions_far", E::invalid_argument, "they must lie within +-2^30",
       dense([](M&, Tensors&, Options& o) {
         o.positions = Positions{{(1 << 30) - 1, 1}, {0, 1}, 0};
       })},
      {"partial_sinks", E::conflicting_argument, "a sink joins once, in merge()",
       dense([](M& m, Tensors& t, Options& o) {
         t.sinks = TensorView(m.sinks.data(), {4});
         o.output = OutputKind::partial;
       })},
      {"partial_without_lse", E::missing_argument, "a partial output needs it",
       dense([](M&, Tensors& t, Options& o) {
         t.lse = {};
         o.output = OutputKind::partial;
       })},
      {"partial_dtype", E::dtype_mismatch, "out (partial) is bf16",
       dense([](M& m, Tensors& t, Options& o) {
         t.out = OutputView(m.out.data(), DType::bf16, {2, 3, 4, 8});
         o.output = OutputKind::partial;
       })},
      {"partial_invariant", E::unsupported, "merges of (O, lse) are not batch-invariant",
       dense([](M&, Tensors&, Options& o) {
         o.output = OutputKind::partial;
         o.reproducibility = Reproducibility::batch_invariant;
       })},
      {"sinks_count", E::shape_mismatch, "sinks is f32 [2]: axis 0 must be 4",
       dense([](M& m, Tensors& t, Options&) { t.sinks = TensorView(m.sinks.data(), {2}); })},
      {"slopes_count", E::shape_mismatch, "alibi_slopes is f32 [3]",
       dense([](M& m, Tensors& t, Options&) { t.alibi_slopes = TensorView(m.sinks.data(), {3}); })},
      {"bias_keys", E::shape_mismatch, "axis 3 must be 1 or 5, the number of keys",
       dense([](M& m, Tensors& t, Options&) {
         t.bias = TensorView(m.bias.data(), {1, 1, 3, 4});
       })},
      {"bias_heads", E::shape_mismatch, "axis 1 must be 1 or 4, the number of query heads",
       dense([](M& m, Tensors& t, Options&) {
         t.bias = TensorView(m.bias.data(), {2, 2, 3, 5});
       })},
      {"bias_short_for_ragged", E::shape_mismatch, "axis 3 must be 1 or at least 5",
       ragged([](M& m, Tensors& t, Options&) {
         t.bias = TensorView(m.bias.data(), {2, 4, 3, 4});
       })},
      {"bias_rank", E::shape_mismatch, "bias is f32 [3, 5]", dense([](M& m, Tensors& t, Options&) {
         t.bias = TensorView(m.bias.data(), {3, 5});
       })},
      {"descale_of_f32", E::conflicting_argument, "only e4m3 and e5m2 are descaled",
       dense([](M& m, Tensors& t, Options&) {
         t.key_descale.scale = TensorView(m.scales.data(), {1});
       })},
      {"descale_heads", E::shape_mismatch, "key_descale is f32 [4]: it must be f32 [2]",
       fp8([](M& m, Tensors& t, Options&) {
         t.key_descale = {TensorView(m.scales.data(), {4}), Granularity::head};
       })},
      {"descale_tokens", E::shape_mismatch, "it must be f32 [2, 5, 2]",
       fp8([](M& m, Tensors& t, Options&) {
         t.value_descale = {TensorView(m.scales.data(), {2, 4, 2}), Granularity::token};
       })},
      {"descale_pages_dense", E::conflicting_argument, "only a paged key or value has pages",
       fp8([](M& m, Tensors& t, Options&) {
         t.key_descale = {TensorView(m.scales.data(), {6, 2}), Granularity::page};
       })},
      {"documents_too_short", E::shape_mismatch, "key positions reach 5",
       dense([](M& m, Tensors&, Options& o) {
         o.mask = documents(TensorView(m.lengths.data(), {2}));
       })},
      {"prefix_sequences", E::shape_mismatch, "has entries for",
       ragged([](M& m, Tensors& t, Options& o) {
         m.cu_q = {0, 1, 2, 6};
         m.cu_k = {0, 1, 2, 10};
         t.cu_seqlens_q = TensorView(m.cu_q.data(), {4});
         t.cu_seqlens_k = TensorView(m.cu_k.data(), {4});
         o.mask = prefix(TensorView(m.lengths.data(), {2}));
       })},
      {"alibi_formula_heads", E::shape_mismatch, "the problem has 2 sequences, 4 query heads",
       dense([](M& m, Tensors&, Options& o) { o.score = alibi(TensorView(m.sinks.data(), {2})); })},
  };
}

class IsRefused : public ::testing::TestWithParam<Refusal> {};

TEST_P(IsRefused, WithTheReasonAndNothingWritten) {
  Memory memory;
  const Problem problem = GetParam().problem(memory);
  try {
    attend(problem);
    FAIL() << "nothing was refused";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr(GetParam().message));
    EXPECT_EQ(e.code(), GetParam().code) << name(e.code()) << ": " << e.what();
  }
  EXPECT_TRUE(memory.untouched());
}

std::vector<Refusal> all_refusals() {
  std::vector<Refusal> all;
  for (const auto& part : {presence_and_shape(), dtypes_devices_memory(), lengths(), options()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}
INSTANTIATE_TEST_SUITE_P(Attend, IsRefused, ::testing::ValuesIn(all_refusals()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Refusals, TheUnchangedProblemsRun) {
  for (Problem (Memory::*make)() :
       {&Memory::dense, &Memory::ragged, &Memory::paged, &Memory::listed, &Memory::fp8}) {
    Memory memory;
    EXPECT_NO_THROW(attend((memory.*make)()));
    EXPECT_FALSE(memory.untouched());
  }
}

TEST(Refusals, APageThatNoRowSeesMayBeMissing) {
  Memory memory;
  Problem problem = memory.paged();
  problem.options.mask = window(0, 0);  // rows stand at keys 2..4 of sequence 1: page 0 holds 0..3
  memory.lengths = {5, 8};              // sequence 1: rows at keys 5..7, page 0 is never read
  memory.table = {0, 1, -1, 3};
  EXPECT_NO_THROW(attend(problem));
  for (const float x : memory.out) EXPECT_EQ(x, 0.75f);
}

TEST(Refusals, PackedProjectionsDoNotCountAsOverlap) {
  // query, key, value and out interleaved in one buffer of rows [q | k | v | out].
  std::vector<float> rows(5 * 4 * 16, 0.5f);
  const Extents shape{1, 5, 2, 8}, strides{5 * 64, 64, 8, 1};
  Problem problem;
  problem.tensors.query = TensorView(rows.data(), shape, strides);
  problem.tensors.key = TensorView(rows.data() + 16, shape, strides);
  problem.tensors.value = TensorView(rows.data() + 32, shape, strides);
  problem.tensors.out = OutputView(rows.data() + 48, shape, strides);
  EXPECT_NO_THROW(attend(problem));
  problem.tensors.out = OutputView(rows.data() + 44, shape, strides);
  EXPECT_THROW(attend(problem), Error);
}

}  // namespace
}  // namespace tilefold
