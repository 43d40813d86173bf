#include "cpu/gather.hpp"

#include <cstring>

#include "cpu/convert.hpp"

namespace tilefold::cpu {

namespace {

bool per_row(const Descale& descale) {
  return descale.scale.present() &&
         (descale.per == Granularity::token || descale.per == Granularity::page);
}

}  // namespace

KeyRows::KeyRows(const core::Geometry& geometry, const Tensors& tensors, const TensorView& tensor,
                 const Descale& descale, PageLayout page_layout)
    : geometry_(geometry),
      tensors_(tensors),
      descale_(descale),
      data_(static_cast<const char*>(tensor.data())),
      dtype_(tensor.dtype()),
      columns_(int(tensor.dim(tensor.rank() - 1))) {
  if (geometry.key_layout == core::KeyLayout::paged)
    page_address_ = core::PageAddress::of(tensor, page_layout);
  else
    address_ = core::RowAddress::of(tensor);
}

const char* KeyRows::row(const Request& request, int key) const {
  const core::Sequence& s = geometry_.sequences[std::size_t(request.sequence)];
  return data_ +
         bytes_of(dtype_) * address_.offset(request.sequence, s.key_begin + key, request.kv_head);
}

const char* KeyRows::paged_row(const core::PageList& pages, const Request& request, int key) const {
  const std::int64_t page = pages[key / geometry_.page_size];
  if (page < 0 || page >= geometry_.pages) return nullptr;
  return data_ +
         bytes_of(dtype_) * page_address_.offset(page, key % geometry_.page_size, request.kv_head);
}

const char* KeyRows::stored_row(int sequence, int kv_head, int key) const {
  const Request request{sequence, kv_head, key, key + 1, Reuse::once};
  if (geometry_.key_layout != core::KeyLayout::paged) return row(request, key);
  return paged_row(core::PageList(tensors_.pages, sequence), request, key);
}

float KeyRows::factor(const Request& request, const core::PageList* pages, int key) const {
  if (!descale_.scale.present()) return 1.0f;
  core::DescalePoint point{request.sequence, 0, request.kv_head, 0, 0};
  if (pages != nullptr) {
    point.page = (*pages)[key / geometry_.page_size];
    point.slot = key % geometry_.page_size;
  } else {
    point.row = geometry_.sequences[std::size_t(request.sequence)].key_begin + key;
  }
  return core::descale_at(descale_, point, geometry_.key_layout);
}

TileRows KeyRows::contiguous(const Request& request, DType element) const {
  // A copy pays where many query tiles read the rows and the stride is a multiple of 1 KiB: the
  // rows' lines then share few sets of the first-level cache and evict each other.
  const std::int64_t stride_bytes = address_.row_stride * bytes_of(element);
  if (request.reuse == Reuse::many && stride_bytes % 1024 == 0) return {};
  return {row(request, request.first), address_.row_stride, request.last - request.first, columns_};
}

TileRows KeyRows::one_page(const Request& request, DType) const {
  if (request.first / geometry_.page_size != (request.last - 1) / geometry_.page_size) return {};
  const core::PageList pages(tensors_.pages, request.sequence);
  const char* from = paged_row(pages, request, request.first);
  if (from == nullptr) return {};
  return {from, page_address_.slot_stride, request.last - request.first, columns_};
}

TileRows KeyRows::read(const Request& request, DType element, void* scratch) const {
  const bool paged = geometry_.key_layout == core::KeyLayout::paged;
  if (dtype_ == element && !descale_.scale.present()) {
    const TileRows own = paged ? one_page(request, element) : contiguous(request, element);
    if (own.rows > 0) return own;
  }
  const std::size_t row_bytes = std::size_t(columns_) * std::size_t(bytes_of(element));
  std::optional<core::PageList> pages;
  if (paged) pages.emplace(tensors_.pages, request.sequence);
  const core::PageList* list = pages ? &*pages : nullptr;
  const bool varies = per_row(descale_);
  float scale = varies ? 1.0f : factor(request, nullptr, request.first);
  char* to = static_cast<char*>(scratch);
  for (int key = request.first; key < request.last; ++key, to += row_bytes) {
    const char* from = paged ? paged_row(*list, request, key) : row(request, key);
    if (from == nullptr) {
      std::memset(to, 0, row_bytes);
      continue;
    }
    if (varies) scale = factor(request, list, key);
    convert_row(dtype_, from, element, to, columns_, scale);
  }
  return {scratch, columns_, request.last - request.first, columns_};
}

QueryRows::QueryRows(const core::Geometry& geometry, const Tensors& tensors)
    : geometry_(geometry), tensors_(tensors), address_(core::RowAddress::of(tensors.query)) {}

TileRows QueryRows::read(const Request& request, DType element, void* scratch) const {
  const core::Sequence& s = geometry_.sequences[std::size_t(request.sequence)];
  const core::KeyLayout layout = geometry_.query_layout == core::QueryLayout::dense
                                     ? core::KeyLayout::dense
                                     : core::KeyLayout::ragged;
  const DType stored = tensors_.query.dtype();
  const char* data = static_cast<const char*>(tensors_.query.data());
  const int columns = geometry_.head_dim;
  const int rows = int(request.last - request.first);
  char* to = static_cast<char*>(scratch);
  for (int r = 0; r < rows; ++r, to += std::size_t(columns) * std::size_t(bytes_of(element))) {
    const std::int64_t listed = request.first + r;
    const int head = request.kv_head * geometry_.group() + int(listed / s.query_length);
    const std::int64_t row = s.query_begin + listed % s.query_length;
    const float scale =
        core::descale_at(tensors_.query_descale, {request.sequence, row, head, 0, 0}, layout);
    const std::int64_t offset = address_.offset(request.sequence, row, head);
    convert_row(stored, data + offset * bytes_of(stored), element, to, columns, scale);
  }
  return {scratch, columns, rows, columns};
}

}  // namespace tilefold::cpu
