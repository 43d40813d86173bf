// Where lengths and page tables lie that live on the device.
#pragma once

#include "cuda/kernels/forward_params.cuh"

namespace tilefold::cuda {

/// int32 or int64 array on the device.
struct IndexArray {
  const void* data;  // null: absent
  long long stride;
  int bytes;  // of an element: 4 or 8
  TILEFOLD_HD long long at(long long i) const {
    return bytes == 8 ? static_cast<const long long*>(data)[i * stride]
                      : static_cast<const int*>(data)[i * stride];
  }
};

enum class KeyForm : int { dense, ragged, page_table, page_list };

struct LengthSources {
  IndexArray query_borders, query_lengths;  // ragged; dense, optional
  IndexArray key_borders, key_lengths;
  IndexArray page_borders, last_page;  // indptr and last_page_size
  IndexArray query_starts, key_starts;
  KeyForm keys;
  long long query_rows, key_rows;  // of the tensor: a sequence's, or all where ragged
  long long page_entries;          // of one row of the table, or of the list
  long long table_row_stride;      // entries of page_ids from one sequence's to the next's
  int query_capacity, key_capacity;
  int query_start, key_start;
  int offset;  // where given_offset is 1
  int given_offset;
  SequenceInfo* sequences;  // [batch], written
};

}  // namespace tilefold::cuda
