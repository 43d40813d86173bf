#include "core/planned_tensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/geometry.hpp"

namespace tilefold::core {

namespace {

static_assert(tensor_count <= 32, "presence is a bit each of 32");

// Entries past the rank are 0: six comparisons without a branch.
bool equal(const Extents& a, const Extents& b) {
  std::int64_t difference = a.size() ^ b.size();
  for (int axis = 0; axis < Extents::max_rank; ++axis) difference |= a[axis] ^ b[axis];
  return difference == 0;
}

bool same_description(const TensorView& a, const TensorView& b) {
  return a.dtype() == b.dtype() && a.device() == b.device() && equal(a.shape(), b.shape()) &&
         equal(a.strides(), b.strides());
}

bool on_host(const TensorView& tensor) {
  return tensor.present() && tensor.device() == Device::cpu();
}

/// Tables are read only as far as lengths reach, which check_same_lengths() knows.
bool has_host_pages(const PageTable& pages) {
  return on_host(pages.table) || on_host(pages.indptr) || on_host(pages.indices) ||
         on_host(pages.last_page_size);
}

bool is_length(const TensorView* tensor, const Tensors& t) {
  for (const TensorView* length : {&t.cu_seqlens_q, &t.cu_seqlens_k, &t.query_lengths,
                                   &t.key_lengths, &t.query_starts, &t.key_starts})
    if (tensor == length) return true;
  return false;
}

}  // namespace

PlannedTensors::PlannedTensors(const Tensors& planned, std::size_t input_alignment)
    : query_per_(planned.query_descale.per),
      key_per_(planned.key_descale.per),
      value_per_(planned.value_descale.per),
      known_lengths_(!has_host_pages(planned.pages)) {
  present_.reserve(8);
  each_tensor(planned, [&](NamedTensor named, std::size_t i) {
    const TensorView& view = *named.tensor;
    if (!view.present()) return;
    const bool input = &view == &planned.query || &view == &planned.key || &view == &planned.value;
    const std::size_t low_bits =
        (std::size_t(bytes_of(view.dtype())) - 1) | (input ? input_alignment - 1 : 0);
    PlannedTensor tensor{i, named.name, view, view.byte_span(), view.empty(), low_bits, {}};
    if (is_length(&view, planned) && on_host(view)) {
      const auto* first = static_cast<const std::byte*>(view.data());
      known_lengths_ = known_lengths_ && view.contiguous();
      if (view.contiguous()) tensor.contents.assign(first, first + tensor.span.last);
    }
    present_bits_ |= std::uint32_t{1} << i;
    if (i < output_count) {
      ++outputs_;
      separate_outputs_ = separate_outputs_ && has_separate_elements(view);
    }
    present_.push_back(std::move(tensor));
  });
}

bool PlannedTensors::describes(const Tensors& tensors, const TensorPointers& given) const {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < tensor_count; ++i) bits |= std::uint32_t{given[i]->present()} << i;
  if (bits != present_bits_) return false;
  for (const PlannedTensor& planned : present_)
    if (!same_description(planned.view, *given[planned.index])) return false;
  return tensors.query_descale.per == query_per_ && tensors.key_descale.per == key_per_ &&
         tensors.value_descale.per == value_per_;
}

bool PlannedTensors::are_usable_and_apart(const TensorPointers& given) const {
  if (!separate_outputs_) return false;
  struct Range {
    std::uintptr_t first, last;
  };
  std::array<Range, tensor_count> ranges;
  for (std::size_t i = 0; i < present_.size(); ++i) {
    const PlannedTensor& planned = present_[i];
    const auto address = reinterpret_cast<std::uintptr_t>(given[planned.index]->data());
    ranges[i] = {0, 0};
    if (planned.empty) continue;
    if (address == 0 || (address & planned.low_bits) != 0) return false;
    const Range own{address + std::uintptr_t(planned.span.first),
                    address + std::uintptr_t(planned.span.last)};
    for (std::size_t output = 0; output < std::min(i, outputs_); ++output)
      if (own.first < ranges[output].last && ranges[output].first < own.last) return false;
    ranges[i] = own;
  }
  return true;
}

bool PlannedTensors::have_same_lengths(const TensorPointers& given) const {
  if (!known_lengths_) return false;
  for (const PlannedTensor& planned : present_) {
    const std::vector<std::byte>& contents = planned.contents;
    if (!contents.empty() &&
        std::memcmp(contents.data(), given[planned.index]->data(), contents.size()) != 0)
      return false;
  }
  return true;
}

}  // namespace tilefold::core
