// A problem after every check: sizes, lengths and addresses as plain numbers.
//
// resolve() is the only way to make one; plan(), backends and the reference read it and re-check
// nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "tilefold/problem.hpp"

namespace tilefold::core {

enum class QueryLayout { dense, ragged };
enum class KeyLayout { dense, ragged, paged };

/// One sequence of the batch. Positions of formulas: query_start + query_stride * i (Geometry holds
/// the strides), aligned to the keys by `offset`.
struct Sequence {
  std::int64_t query_begin = 0;  // first row in a ragged query; 0 in a dense one
  std::int64_t key_begin = 0;    // first row in a ragged key; 0 in dense and paged ones
  int query_length = 0;          // Sq
  int key_length = 0;            // Sk
  int query_start = 0, key_start = 0;
  int offset = 0;  // Sk - Sq, or Positions::offset
  friend bool operator==(const Sequence&, const Sequence&) = default;
};

struct Geometry {
  QueryLayout query_layout = QueryLayout::dense;
  KeyLayout key_layout = KeyLayout::dense;
  int batch = 0, query_heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  int query_stride = 1, key_stride = 1;  // of positions, not of memory
  int page_size = 0;
  std::int64_t pages = 0;
  std::int64_t total_query_rows = 0;  // ragged: rows of the query tensor; dense: B * Sq
  double scale = 1;
  DType query_dtype{}, key_dtype{}, value_dtype{}, out_dtype{};
  std::vector<Sequence> sequences;  // one a sequence; empty when lengths live on a device
  bool lengths_on_device = false;
  int max_query_length = 0, max_key_length = 0;  // over the sequences, or the capacities

  int group() const { return query_heads / kv_heads; }
  int kv_head(int query_head) const { return query_head / group(); }
  bool computes_in_double() const { return query_dtype == DType::f64; }

  score::Place place(int sequence, int query_head) const {
    const Sequence& s = sequences[std::size_t(sequence)];
    return {sequence, query_head, kv_head(query_head), s.query_length, s.key_length, s.offset};
  }
  int query_position(int sequence, int row) const {
    return sequences[std::size_t(sequence)].query_start + query_stride * row;
  }
  int key_position(int sequence, int key) const {
    return sequences[std::size_t(sequence)].key_start + key_stride * key;
  }
};

/// Checks everything the host can see and throws Error naming the argument. Reads lengths and
/// tables that are on the host; reads no activation. Pointers of query, key, value and out may be
/// null: a description plans as well as tensors do.
Geometry resolve(const Problem& problem);

/// The geometry with lengths on a device replaced by their capacities: what sizes work lists and
/// workspaces, and bounds counts from above.
Geometry sized_by_capacity(const Geometry& geometry, const Options& options);

/// What only run() can check: pointers present, aligned, outputs that overlap nothing.
void check_memory(const Tensors& tensors);

/// The same checks one by one, for callers with tensors of their own: a present pointer on its
/// element's boundary; an output whose elements are apart; two tensors that share no memory.
void require_usable(const char* name, const TensorView& tensor);
void require_separate_elements(const char* name, const TensorView& output);
/// Whether no two of the view's elements share memory; its pointer means nothing.
bool has_separate_elements(const TensorView& output);
void require_disjoint(const char* output_name, const TensorView& output, const char* other_name,
                      const TensorView& other);

/// Throws Error(plan_mismatch) unless `given` has the dtypes, shapes, strides and devices of
/// `planned`.
void check_same_description(const Tensors& planned, const Tensors& given);

/// Throws Error(plan_mismatch) unless the host lengths and tables of `given` say what they said
/// when `geometry` was resolved; refuses page ids outside the pool. Pointers are present. Allocates
/// nothing.
void check_same_lengths(const Geometry& geometry, const Tensors& given, const Options& options);

/// The value tensor: options.value_source decides whether it is a view of the key.
TensorView value_of(const Tensors& tensors, const Options& options);

/// Offsets, in elements, of the row of (sequence, row, head) in a dense [B, S, H, D] or ragged
/// [total, H, D] tensor. All arithmetic is int64: batches and pools pass 2^31 elements.
struct RowAddress {
  std::int64_t sequence_stride = 0, row_stride = 0, head_stride = 0;

  static RowAddress of(const TensorView& tensor);  // rank 4 is dense, rank 3 ragged
  std::int64_t offset(int sequence, std::int64_t row, int head) const {
    return sequence * sequence_stride + row * row_stride + head * head_stride;
  }
};

/// Offsets in a paged pool.
struct PageAddress {
  std::int64_t page_stride = 0, slot_stride = 0, head_stride = 0;

  static PageAddress of(const TensorView& pool, PageLayout layout);
  std::int64_t offset(std::int64_t page, int slot, int head) const {
    return page * page_stride + slot * slot_stride + head * head_stride;
  }
};

/// Page ids of one sequence, in both table forms.
class PageList {
 public:
  PageList(const PageTable& pages, int sequence);
  std::int64_t operator[](std::int64_t index) const { return ids_[index * stride_]; }

 private:
  const std::int32_t* ids_;
  std::int64_t stride_;
};

/// Any element of an index tensor (int32 or int64, rank 1, any stride).
std::int64_t index_at(const TensorView& tensor, std::int64_t i);

/// The factor that a descale tensor holds for one element: 1 where there is none.
/// dense and ragged: row is the tensor's own row; paged: page and slot.
struct DescalePoint {
  int sequence;
  std::int64_t row;
  int head;
  std::int64_t page;
  int slot;
};
float descale_at(const Descale& descale, const DescalePoint& point, KeyLayout layout);

}  // namespace tilefold::core
