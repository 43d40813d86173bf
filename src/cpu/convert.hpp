// Rows of stored elements become rows of the kernels' element types, with vector code.
#pragma once

#include <cstdint>

#include "tilefold/dtype.hpp"

namespace tilefold::cpu {

/// to[i] = from[i] * factor for i in [0, count); `to_type` is f32, f64 or bf16. The widening is
/// exact; a factor other than 1 rounds once, in f32 (f64 from f64). bf16 rounds to nearest even
/// unless the source is bf16 or fp8, which it holds exactly.
void convert_row(DType from_type, const void* from, DType to_type, void* to, std::int64_t count,
                 float factor);

/// to[i] = from[i] rounded to nearest even; F is float or double, `to_type` f64, f32, f16 or bf16.
void store_row(const float* from, DType to_type, void* to, std::int64_t count);
void store_row(const double* from, DType to_type, void* to, std::int64_t count);

}  // namespace tilefold::cpu
