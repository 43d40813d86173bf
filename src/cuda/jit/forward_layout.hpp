// Where the formula lies in a compiled kernel's parameter, and how much shared memory the kernel
// has: what the host must know of a kernel that it did not compile. Computed by nvcc from the
// kernels' own headers; the text that NVRTC compiles asserts the same numbers.
#pragma once

#include <cstddef>

#include "cuda/tile/half_type.hpp"

namespace tilefold::cuda::jit {

/// Kernels that take a formula as part of their type.
enum class Family { sm90, sm80 };

struct ForwardLayout {
  int shared_bytes;
  /// Bytes from the start of the parameter. sm80 is told no first keys: 0.
  std::size_t first_keys_at, formula_at;
};

inline constexpr std::size_t most_alignment = 16;

/// A row of sm90::compiled_tiles or of sm80::changed_tiles.
struct ForwardShape {
  Family family;
  HalfType type;
  int row;
  bool plain = false;  // sm90: ForwardConfig::plain
};

/// `alignment`: of the formula, a power of two up to most_alignment.
ForwardLayout forward_layout(const ForwardShape& shape, std::size_t alignment);

}  // namespace tilefold::cuda::jit
