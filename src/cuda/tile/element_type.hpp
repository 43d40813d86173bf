// The element types that kernels read and write, as a run-time value for host and device.
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::cuda {

enum class ElementType : int { f32, f16, bf16, e4m3, e5m2 };

TILEFOLD_HD constexpr int bytes_of(ElementType type) {
  return type == ElementType::f32                                ? 4
         : type == ElementType::f16 || type == ElementType::bf16 ? 2
                                                                 : 1;
}

}  // namespace tilefold::cuda
