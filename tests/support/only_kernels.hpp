// TILEFOLD_CUDA_KERNELS for a scope: plans take only kernels whose names begin so.
//
//   const OnlyKernels only("sm80");
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace tilefold::testing {

/// Only kernels of one family, while it lives; what was asked for before comes back.
class OnlyKernels {
 public:
  explicit OnlyKernels(const std::string& family) {
    if (const char* asked = std::getenv(variable)) former_ = asked;
    ::setenv(variable, family.c_str(), 1);
  }
  ~OnlyKernels() {
    if (former_)
      ::setenv(variable, former_->c_str(), 1);
    else
      ::unsetenv(variable);
  }
  OnlyKernels(const OnlyKernels&) = delete;
  OnlyKernels& operator=(const OnlyKernels&) = delete;

 private:
  static constexpr const char* variable = "TILEFOLD_CUDA_KERNELS";
  std::optional<std::string> former_;
};

}  // namespace tilefold::testing
