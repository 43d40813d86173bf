// The one list of a problem's tensors, for checks that treat them all alike.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "tilefold/problem.hpp"

namespace tilefold::core {

/// A tensor of a problem under the name that errors give it.
struct NamedTensor {
  const char* name;
  const TensorView* tensor;
};

inline constexpr std::size_t tensor_count = 21, output_count = 2;

/// Every tensor that a problem may have, absent ones included; the first output_count are the
/// outputs.
inline std::array<NamedTensor, tensor_count> all_tensors(const Tensors& t) {
  return {{{"out", &t.out},
           {"lse", &t.lse},
           {"query", &t.query},
           {"key", &t.key},
           {"value", &t.value},
           {"cu_seqlens_q", &t.cu_seqlens_q},
           {"cu_seqlens_k", &t.cu_seqlens_k},
           {"query_lengths", &t.query_lengths},
           {"key_lengths", &t.key_lengths},
           {"page table", &t.pages.table},
           {"page indptr", &t.pages.indptr},
           {"page indices", &t.pages.indices},
           {"last_page_size", &t.pages.last_page_size},
           {"query_descale", &t.query_descale.scale},
           {"key_descale", &t.key_descale.scale},
           {"value_descale", &t.value_descale.scale},
           {"sinks", &t.sinks},
           {"alibi_slopes", &t.alibi_slopes},
           {"bias", &t.bias},
           {"query_starts", &t.query_starts},
           {"key_starts", &t.key_starts}}};
}

/// Calls visit(NamedTensor, index) for each of them.
template <class Visit> void each_tensor(const Tensors& tensors, const Visit& visit) {
  const auto all = all_tensors(tensors);
  for (std::size_t i = 0; i < tensor_count; ++i) visit(all[i], i);
}

/// The same list without names: additions to one address, no table.
using TensorPointers = std::array<const TensorView*, tensor_count>;
inline TensorPointers pointers_to(const Tensors& tensors) {
  const auto all = all_tensors(tensors);
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return TensorPointers{all[i].tensor...};
  }
  (std::make_index_sequence<tensor_count>{});
}

}  // namespace tilefold::core
