// A formula that is part of a kernel's type: a mask and a score change, functors of
// include/tilefold/score/ or a user's own, with their parameters as data.
#pragma once

#include "tilefold/score/compose.hpp"

namespace tilefold::cuda {

/// `mask` is read with Interval by the scout and with Position by the consumers, `change` with
/// Position. Their pointers are device memory.
template <class M, class C> struct CompiledFormula {
  using Mask = M;
  using Change = C;
  static constexpr bool changes = !score::is_unchanged<C>;

  M mask;
  C change;
};

}  // namespace tilefold::cuda
