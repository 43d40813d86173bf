// A problem of host tensors on the current CUDA device: inputs travel there once, outputs come
// back.
//
//   DeviceCopy copy(problem);
//   Plan plan = tilefold::plan(copy.problem());
//   plan.run(copy.problem().tensors);
//   copy.download();                       // waits for the run; writes the outputs of `problem`
#pragma once

#include <memory>

#include "tilefold/problem.hpp"

namespace tilefold::cli {

/// The same problem, its tensors said to be on the current device; lengths and page tables stay on
/// the host. Their pointers stay the host's: plan() reads none of them. Throws Error(unsupported)
/// where there is no device, with the reason.
Problem described_on_current_device(const Problem& host);

class DeviceCopy {
 public:
  /// Copies the inputs. Throws Error(unsupported) where there is no device, and
  /// Error(out_of_memory).
  explicit DeviceCopy(const Problem& host);
  ~DeviceCopy();
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  const Problem& problem() const;
  /// Until all that was launched has ended. Throws Error(device_failed) where it failed.
  void wait() const;
  void download() const;

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace tilefold::cli
