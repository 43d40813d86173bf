// What NVRTC says of a formula, without what it says of our kernels.
#pragma once

#include <string>

namespace tilefold::cuda::jit {

/// The errors of a log, each with the line of text that it points at: "options.mask, line 3: ...";
/// at most five of them. Those in files whose names begin with `file`; where there is none of them,
/// others. The templates that led to an error are left out.
std::string errors_in(const std::string& log, const std::string& file);

}  // namespace tilefold::cuda::jit
