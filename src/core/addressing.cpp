// Where rows, pages and descale factors lie in memory.
#include "core/geometry.hpp"

namespace tilefold::core {

RowAddress RowAddress::of(const TensorView& tensor) {
  if (tensor.rank() == 4) return {tensor.stride(0), tensor.stride(1), tensor.stride(2)};
  return {0, tensor.stride(0), tensor.stride(1)};
}

PageAddress PageAddress::of(const TensorView& pool, PageLayout layout) {
  if (layout == PageLayout::nhd) return {pool.stride(0), pool.stride(1), pool.stride(2)};
  return {pool.stride(0), pool.stride(2), pool.stride(1)};
}

PageList::PageList(const PageTable& pages, int sequence) {
  if (pages.table.present()) {
    ids_ = pages.table.as<std::int32_t>() + sequence * pages.table.stride(0);
    stride_ = pages.table.stride(1);
  } else {
    stride_ = pages.indices.stride(0);
    ids_ = pages.indices.as<std::int32_t>() + index_at(pages.indptr, sequence) * stride_;
  }
}

std::int64_t index_at(const TensorView& tensor, std::int64_t i) {
  const std::int64_t at = i * tensor.stride(0);
  return tensor.dtype() == DType::i64 ? tensor.as<std::int64_t>()[at]
                                      : std::int64_t(tensor.as<std::int32_t>()[at]);
}

float descale_at(const Descale& descale, const DescalePoint& point, KeyLayout layout) {
  const TensorView& scale = descale.scale;
  if (!scale.present()) return 1.0f;
  const float* values = scale.as<float>();
  switch (descale.per) {
    case Granularity::tensor: return values[0];
    case Granularity::head: return values[point.head * scale.stride(0)];
    case Granularity::page:
      return values[point.page * scale.stride(0) + point.head * scale.stride(1)];
    case Granularity::token: break;
  }
  if (layout == KeyLayout::paged)
    return values[point.page * scale.stride(0) + point.slot * scale.stride(1) +
                  point.head * scale.stride(2)];
  // [B, S, heads] or [total, heads]
  if (scale.rank() == 3)
    return values[point.sequence * scale.stride(0) + point.row * scale.stride(1) +
                  point.head * scale.stride(2)];
  return values[point.row * scale.stride(0) + point.head * scale.stride(1)];
}

TensorView value_of(const Tensors& tensors, const Options& options) {
  if (options.value_source == ValueSource::own) return tensors.value;
  return tensors.key.slice(tensors.key.rank() - 1, 0, options.value_dim);
}

}  // namespace tilefold::core
