// The 16-bit formats that the tensor cores multiply, as a template value.
#pragma once

namespace tilefold::cuda {

enum class HalfType { f16, bf16 };

}  // namespace tilefold::cuda
