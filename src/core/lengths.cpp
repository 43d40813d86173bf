#include "core/lengths.hpp"

#include <algorithm>
#include <string>

#include "tilefold/error.hpp"

namespace tilefold::core {

namespace {

// Positions, and sums of two of them, stay inside int: formulas compute with int.
constexpr std::int64_t position_limit = std::int64_t{1} << 30;

std::string at(const char* name, std::int64_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

[[noreturn]] void refuse(const std::string& what, std::int64_t value, const std::string& rule) {
  throw Error(ErrorCode::length_invalid, what + " is " + std::to_string(value) + ": " + rule);
}

struct Rows {
  std::int64_t begin, length;
};

Rows cumulative(const TensorView& cu_seqlens, const char* name, std::int64_t total, int index) {
  const std::int64_t begin = index_at(cu_seqlens, index), end = index_at(cu_seqlens, index + 1);
  if (index == 0 && begin != 0) refuse(at(name, 0), begin, "the first entry must be 0");
  if (end < begin)
    refuse(at(name, index + 1), end,
           "entries must not fall, and the one before is " + std::to_string(begin));
  if (end > total)
    refuse(at(name, index + 1), end, "the tensor has only " + std::to_string(total) + " rows");
  return {begin, end - begin};
}

std::int64_t bounded_length(const TensorView& lengths, const char* name, std::int64_t limit,
                            int index) {
  const std::int64_t length = index_at(lengths, index);
  if (length < 0 || length > limit)
    refuse(at(name, index), length, "it must lie between 0 and " + std::to_string(limit));
  return length;
}

Rows query_rows(const Geometry& geometry, const Tensors& tensors, int index) {
  if (geometry.query_layout == QueryLayout::ragged)
    return cumulative(tensors.cu_seqlens_q, "cu_seqlens_q", tensors.query.dim(0), index);
  const std::int64_t rows = tensors.query.dim(1);
  if (!tensors.query_lengths.present()) return {0, rows};
  return {0, bounded_length(tensors.query_lengths, "query_lengths", rows, index)};
}

std::int64_t listed_length(const Geometry& geometry, const PageTable& pages, int index) {
  const Rows range = cumulative(pages.indptr, "page indptr", pages.indices.dim(0), index);
  const std::int64_t last = index_at(pages.last_page_size, index);
  if (range.length == 0) {
    if (last != 0)
      refuse(at("last_page_size", index), last, "a sequence without pages must have 0");
    return 0;
  }
  if (last < 1 || last > geometry.page_size)
    refuse(at("last_page_size", index), last,
           "it must lie between 1 and the page size, " + std::to_string(geometry.page_size));
  return (range.length - 1) * geometry.page_size + last;
}

Rows key_rows(const Geometry& geometry, const Tensors& tensors, int index) {
  switch (geometry.key_layout) {
    case KeyLayout::ragged:
      return cumulative(tensors.cu_seqlens_k, "cu_seqlens_k", tensors.key.dim(0), index);
    case KeyLayout::dense:
      if (!tensors.key_lengths.present()) return {0, tensors.key.dim(1)};
      return {0, bounded_length(tensors.key_lengths, "key_lengths", tensors.key.dim(1), index)};
    case KeyLayout::paged: break;
  }
  if (tensors.pages.indptr.present()) return {0, listed_length(geometry, tensors.pages, index)};
  const std::int64_t limit = tensors.pages.table.dim(1) * geometry.page_size;
  return {0, bounded_length(tensors.key_lengths, "key_lengths", limit, index)};
}

int position(const char* name, std::int64_t start, std::int64_t stride, std::int64_t length) {
  const std::int64_t last = start + stride * std::max<std::int64_t>(length - 1, 0);
  if (std::min(start, last) <= -position_limit || std::max(start, last) >= position_limit)
    throw Error(ErrorCode::invalid_argument,
                std::string(name) + " positions run from " + std::to_string(start) + " to " +
                    std::to_string(last) + ": they must lie within +-2^30");
  return int(start);
}

void check_capacity(const char* name, std::int64_t length, std::optional<std::int64_t> capacity,
                    int index) {
  if (capacity && length > *capacity)
    throw Error(ErrorCode::capacity_exceeded,
                "capacity." + std::string(name) + " is " + std::to_string(*capacity) +
                    ": sequence " + std::to_string(index) + " has " + std::to_string(length));
}

}  // namespace

Sequence read_sequence(const Geometry& geometry, const Tensors& tensors, const Options& options,
                       int index) {
  const Rows query = query_rows(geometry, tensors, index);
  const Rows key = key_rows(geometry, tensors, index);
  if (query.length >= position_limit || key.length >= position_limit)
    refuse("the length of sequence " + std::to_string(index), std::max(query.length, key.length),
           "at most 2^30 - 1 rows are supported");
  check_capacity("query_length", query.length, options.capacity.query_length, index);
  check_capacity("key_length", key.length, options.capacity.key_length, index);

  const Positions positions = options.positions.value_or(Positions{});
  const auto start = [&](Affine affine, const TensorView& starts) {
    return affine.start + (starts.present() ? index_at(starts, index) : 0);
  };
  Sequence sequence;
  sequence.query_begin = query.begin;
  sequence.key_begin = key.begin;
  sequence.query_length = int(query.length);
  sequence.key_length = int(key.length);
  sequence.query_start = position("query", start(positions.query, tensors.query_starts),
                                  positions.query.stride, query.length);
  sequence.key_start =
      position("key", start(positions.key, tensors.key_starts), positions.key.stride, key.length);
  sequence.offset = int(options.positions ? positions.offset : key.length - query.length);
  return sequence;
}

void check_pages(const Geometry& geometry, const Tensors& tensors, const Options& options,
                 int sequence) {
  const Sequence& rows = geometry.sequences[std::size_t(sequence)];
  if (rows.query_length == 0 || rows.key_length == 0) return;
  const PageList list(tensors.pages, sequence);
  const int pages = (rows.key_length - 1) / geometry.page_size + 1;
  const auto interval = [](int a, int b) {
    return score::Interval(std::min(a, b), std::max(a, b));
  };
  const score::Interval queries =
      interval(geometry.query_position(sequence, 0),
               geometry.query_position(sequence, rows.query_length - 1));
  for (int p = 0; p < pages; ++p) {
    if (list[p] >= 0 && list[p] < geometry.pages) continue;
    const int first = p * geometry.page_size;
    const int last = std::min(first + geometry.page_size, rows.key_length) - 1;
    const score::Interval keys =
        interval(geometry.key_position(sequence, first), geometry.key_position(sequence, last));
    for (int head = 0; head < geometry.query_heads; ++head) {
      const score::MaskNode* mask = options.mask.node();
      if (mask && mask->classify(queries, keys, geometry.place(sequence, head)).no()) continue;
      throw Error(ErrorCode::page_out_of_range,
                  "page table entry " + std::to_string(p) + " of sequence " +
                      std::to_string(sequence) + " is " + std::to_string(list[p]) +
                      ": its keys may be seen, so it must lie in [0, " +
                      std::to_string(geometry.pages) + ")");
    }
  }
}

void check_same_lengths(const Geometry& geometry, const Tensors& given, const Options& options) {
  for (int b = 0; b < int(geometry.sequences.size()); ++b) {
    const Sequence now = read_sequence(geometry, given, options, b);
    const Sequence& planned = geometry.sequences[std::size_t(b)];
    if (!(now == planned))
      throw Error(ErrorCode::plan_mismatch,
                  "lengths of sequence " + std::to_string(b) + " are " +
                      std::to_string(now.query_length) + " queries and " +
                      std::to_string(now.key_length) + " keys: the plan was made for " +
                      std::to_string(planned.query_length) + " and " +
                      std::to_string(planned.key_length) + "; plan again when lengths change");
    if (geometry.key_layout == KeyLayout::paged) check_pages(geometry, given, options, b);
  }
}

Geometry sized_by_capacity(const Geometry& geometry, const Options& options) {
  Geometry sized = geometry;
  if (!geometry.lengths_on_device) return sized;
  Sequence largest;
  largest.query_length = geometry.max_query_length;
  largest.key_length = geometry.max_key_length;
  largest.offset = geometry.max_key_length - geometry.max_query_length;
  if (const auto& positions = options.positions) {
    largest.query_start = int(positions->query.start);
    largest.key_start = int(positions->key.start);
    largest.offset = int(positions->offset);
  }
  sized.sequences.assign(std::size_t(geometry.batch), largest);
  return sized;
}

}  // namespace tilefold::core
