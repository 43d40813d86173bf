#include "cuda/jit/sources.hpp"

#include <string_view>

namespace tilefold::cuda::jit {

Hash kernel_sources_hash() {
  static const Hash hash = [] {
    Hash all;
    // With the zero at its end: what one text ends with is not what the next begins with.
    for (const KernelSource& source : kernel_sources())
      for (const std::string_view text : {std::string_view(source.name), {source.text}})
        all.add(text.data(), text.size() + 1);
    return all;
  }();
  return hash;
}

}  // namespace tilefold::cuda::jit
