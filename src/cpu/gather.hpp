// Rows of query, key and value tensors in any layout, brought into a kernel's element type.
//
// A gather hands out the tensor's own memory where it can: the stored type is the kernel's, nothing
// is descaled and the rows lie at one stride. Otherwise rows are converted into the caller's
// scratch.
#pragma once

#include <optional>

#include "core/geometry.hpp"
#include "cpu/tile_kernel.hpp"

namespace tilefold::cpu {

/// Whether a tile is read once (decode) or again and again by the query tiles of a block: then rows
/// far apart are worth a copy into neighbouring lines.
enum class Reuse { once, many };

/// Keys or values of every sequence.
class KeyRows {
 public:
  KeyRows(const core::Geometry& geometry, const Tensors& tensors, const TensorView& tensor,
          const Descale& descale, PageLayout page_layout);

  /// Keys [first, last) of a sequence and KV head, 0 <= first < last <= Sk, as rows of `element`.
  /// scratch holds (last - first) * columns() elements. On paged tensors a page id outside the pool
  /// is not read: its rows are zeros.
  struct Request {
    int sequence, kv_head, first, last;
    Reuse reuse;
  };
  TileRows read(const Request& request, DType element, void* scratch) const;
  int columns() const { return columns_; }
  /// Where one key's row is stored, and its bytes; null where its page id is outside the pool.
  const char* stored_row(int sequence, int kv_head, int key) const;
  std::int64_t stored_row_bytes() const { return std::int64_t(columns_) * bytes_of(dtype_); }

 private:
  const char* row(const Request& request, int key) const;
  const char* paged_row(const core::PageList& pages, const Request& request, int key) const;
  TileRows contiguous(const Request& request, DType element) const;
  TileRows one_page(const Request& request, DType element) const;
  float factor(const Request& request, const core::PageList* pages, int key) const;

  const core::Geometry& geometry_;
  const Tensors& tensors_;
  const Descale& descale_;
  const char* data_;
  DType dtype_;
  int columns_;
  core::RowAddress address_;
  core::PageAddress page_address_;
};

/// Query rows in the order of schedule.hpp: row r is query r % Sq of head kv_head * group + r / Sq.
class QueryRows {
 public:
  QueryRows(const core::Geometry& geometry, const Tensors& tensors);
  /// Rows [first, last) as rows of `element`; scratch holds (last - first) * Dqk elements.
  struct Request {
    int sequence, kv_head;
    std::int64_t first, last;
  };
  TileRows read(const Request& request, DType element, void* scratch) const;

 private:
  const core::Geometry& geometry_;
  const Tensors& tensors_;
  core::RowAddress address_;
};

}  // namespace tilefold::cpu
