// What the families of tensor-core kernels ask of a problem alike. A refusal is one sentence;
// nothing where there is none.
#pragma once

#include <optional>
#include <string>

#include "core/geometry.hpp"
#include "cuda/tile/half_type.hpp"
#include "tilefold/problem.hpp"

namespace tilefold::cuda {

DType dtype_of(HalfType type);

/// The start of a kernel's name: "sm80 bf16 d192-128".
std::string kernel_name(const char* family, HalfType type, int head_dim, int value_dim);

/// Inputs are of one 16-bit type and not descaled. `because` ends the sentence about types.
std::optional<std::string> type_refusal(HalfType type, const core::Geometry& geometry,
                                        const Problem& problem, const char* because = "");

/// The problem's head dimensions fit a tile's, in whole copies of 8 elements by `copier`.
std::optional<std::string> head_refusal(int head_dim, int value_dim, const core::Geometry& geometry,
                                        const char* copier);

/// The mask is one range of keys a query, and scores are only scaled.
std::optional<std::string> range_refusal(const Problem& problem);

/// A scale that may enter the exponent: a normal float, not 0.
std::optional<std::string> scale_refusal(double scale);

}  // namespace tilefold::cuda
