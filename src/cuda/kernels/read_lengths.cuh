// Lengths and page tables that live on the device, read, bounded and written as SequenceInfo.
//
// Grid: one block of 128 threads a sequence. What is out of bounds sets the status word and marks
// the sequence broken; no kernel after this one can read outside a tensor or the pool.
#pragma once

#include "cuda/kernels/forward_params.cuh"
#include "cuda/kernels/length_sources.hpp"

namespace tilefold::cuda {

/// A stretch of rows; `valid` 0: what the arrays say is impossible.
struct Stretch {
  long long begin, length;
  int valid;
};

TILEFOLD_HD Stretch between(const IndexArray& borders, int sequence, long long total) {
  const long long begin = borders.at(sequence), end = borders.at(sequence + 1);
  const bool valid = begin >= 0 && end >= begin && end <= total && (sequence > 0 || begin == 0);
  return {valid ? begin : 0, valid ? end - begin : 0, valid};
}
TILEFOLD_HD Stretch bounded_length(const IndexArray& lengths, int sequence, long long limit) {
  if (lengths.data == nullptr) return {0, limit, 1};
  const long long length = lengths.at(sequence);
  const bool valid = length >= 0 && length <= limit;
  return {0, valid ? length : 0, valid};
}

TILEFOLD_HD Stretch query_stretch(const LengthSources& from, int sequence) {
  Stretch rows = from.query_borders.data != nullptr
                     ? between(from.query_borders, sequence, from.query_rows)
                     : bounded_length(from.query_lengths, sequence, from.query_rows);
  if (rows.length > from.query_capacity) rows = {0, 0, 0};
  return rows;
}

/// For page lists `begin` counts entries of the list.
TILEFOLD_HD Stretch key_stretch(const LengthSources& from, int sequence, int page_size) {
  Stretch rows;
  switch (from.keys) {
    case KeyForm::ragged: rows = between(from.key_borders, sequence, from.key_rows); break;
    case KeyForm::dense: rows = bounded_length(from.key_lengths, sequence, from.key_rows); break;
    case KeyForm::page_table:
      rows = bounded_length(from.key_lengths, sequence, from.page_entries * page_size);
      rows.begin = sequence * from.table_row_stride;
      break;
    default: {
      rows = between(from.page_borders, sequence, from.page_entries);
      const long long last = from.last_page.at(sequence), pages = rows.length;
      if (pages == 0 ? last != 0 : last < 1 || last > page_size) rows.valid = 0;
      rows.length = pages == 0 ? 0 : (pages - 1) * page_size + last;
    }
  }
  if (rows.length > from.key_capacity) rows.valid = 0;
  if (!rows.valid) rows.length = 0;
  return rows;
}

TILEFOLD_HD bool position_fits(long long start, long long stride, long long length) {
  constexpr long long limit = 1LL << 30;
  const long long last = start + stride * (length > 0 ? length - 1 : 0);
  return start > -limit && start < limit && last > -limit && last < limit;
}

TILEFOLD_HD SequenceInfo read_sequence(const ForwardParams& p, const LengthSources& from,
                                       int sequence) {
  const Stretch query = query_stretch(from, sequence);
  const Stretch key = key_stretch(from, sequence, p.page_size);
  const bool listed = from.keys == KeyForm::page_list || from.keys == KeyForm::page_table;
  const auto start = [&](int first, const IndexArray& starts) {
    return first + (starts.data == nullptr ? 0 : starts.at(sequence));
  };
  const long long query_start = start(from.query_start, from.query_starts);
  const long long key_start = start(from.key_start, from.key_starts);
  SequenceInfo s{};
  s.query_begin = query.begin;
  s.key_begin = listed ? 0 : key.begin;
  s.page_begin = listed ? key.begin : 0;
  s.query_length = int(query.length);
  s.key_length = int(key.length);
  s.query_start = int(query_start);
  s.key_start = int(key_start);
  s.offset = from.given_offset ? from.offset : s.key_length - s.query_length;
  s.broken = !query.valid || !key.valid ||
             !position_fits(query_start, p.query_stride, query.length) ||
             !position_fits(key_start, p.key_stride, key.length);
  return s;
}

/// Keys [first, last] of a page, indices within the sequence.
struct PageKeys {
  int first, last;
};
TILEFOLD_HD PageKeys keys_of_page(const ForwardParams& p, const SequenceInfo& s, int page) {
  const int first = page * p.page_size;
  return {first, int(score::smaller<long long>(1LL * first + p.page_size, s.key_length)) - 1};
}
/// True where entry `page` of the sequence names no page.
TILEFOLD_HD bool names_no_page(const ForwardParams& p, const SequenceInfo& s, int page) {
  const int id = p.page_ids[(s.page_begin + page) * p.page_id_stride];
  return id < 0 || id >= p.pages;
}
/// Whether the mask that the parameters describe hides keys from every row of a sequence.
TILEFOLD_HD bool hides(const ForwardParams& p, const SequenceInfo& s, int sequence, PageKeys of) {
  const score::Interval queries =
      positions_between(query_position(p, s, 0), query_position(p, s, s.query_length - 1));
  const score::Interval keys =
      positions_between(key_position(p, s, of.first), key_position(p, s, of.last));
  return !p.mask.everything() && p.mask.classify(queries, keys, place_of(p, s, sequence, 0)).no();
}

/// The work of one block; `hidden(sequence, PageKeys)` says which pages nobody reads.
template <class Hidden> __device__ __forceinline__ void read_lengths_of(const ForwardParams& p,
                                                                        const LengthSources& from,
                                                                        const Hidden& hidden) {
  const int sequence = int(blockIdx.x);
  SequenceInfo s = read_sequence(p, from, sequence);
  if (threadIdx.x == 0 && s.broken) atomicOr(p.status, Status::length_invalid);
  bool missing = false;
  if (!s.broken && is_paged(p) && s.query_length > 0 && s.key_length > 0) {
    const int pages = (s.key_length - 1) / p.page_size + 1;
    for (int page = int(threadIdx.x); page < pages; page += 128)
      missing = missing || (names_no_page(p, s, page) && !hidden(s, keys_of_page(p, s, page)));
  }
  if (__syncthreads_or(missing)) {
    s.broken = 1;
    if (threadIdx.x == 0) atomicOr(p.status, Status::page_out_of_range);
  }
  if (threadIdx.x == 0) from.sequences[sequence] = s;
}

__global__ void __launch_bounds__(128) read_lengths(const __grid_constant__ ForwardParams p,
                                                    const __grid_constant__ LengthSources from) {
  read_lengths_of(p, from, [&](const SequenceInfo& s, PageKeys keys) {
    return hides(p, s, int(blockIdx.x), keys);
  });
}

}  // namespace tilefold::cuda
