// The one list of a problem's tensors, for checks that treat them all alike.
#pragma once

#include <cstddef>
#include <iterator>

#include "tilefold/problem.hpp"

namespace tilefold::core {

/// A tensor of a problem under the name that errors give it.
struct NamedTensor {
  const char* name;
  const TensorView* tensor;
};

inline constexpr std::size_t output_count = 2;

/// Calls visit(NamedTensor, index) for every tensor that a problem may have, absent ones included;
/// the first output_count are the outputs.
template <class Visit> void each_tensor(const Tensors& t, const Visit& visit) {
  const NamedTensor all[] = {{"out", &t.out},
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
                             {"key_starts", &t.key_starts}};
  for (std::size_t i = 0; i < std::size(all); ++i) visit(all[i], i);
}

}  // namespace tilefold::core
