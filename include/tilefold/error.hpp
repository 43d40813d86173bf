// What a refusal looks like: one exception that names the argument, its value and what it had to
// be.
//
//   try { tilefold::attend(q, k, v, out); }
//   catch (const tilefold::Error& e) { if (e.code() == tilefold::ErrorCode::head_mismatch) ...; }
#pragma once

#include <stdexcept>
#include <string>

namespace tilefold {

/// Why a call was refused. After a refusal nothing has been written.
enum class ErrorCode {
  invalid_argument,      ///< a value outside its range (scale NaN, softcap <= 0, ...)
  shape_mismatch,        ///< a tensor's rank or extent does not fit the others
  head_mismatch,         ///< query heads are not a multiple of KV heads
  dtype_mismatch,        ///< a dtype, or a pair of dtypes, that is not allowed
  device_mismatch,       ///< tensors on different devices, or on one the backend cannot read
  stride_unsupported,    ///< the last dimension is not contiguous
  misaligned,            ///< a pointer that is not a multiple of its element size
  length_invalid,        ///< lengths out of order, negative, or past the tensor
  capacity_exceeded,     ///< data larger than the capacity that was stated
  page_out_of_range,     ///< a table entry that must be read names no page of the pool
  overlap,               ///< an output shares memory with an input or another output
  missing_argument,      ///< a tensor that the other arguments require is absent
  conflicting_argument,  ///< two arguments that exclude each other
  unsupported,           ///< a right problem that no available backend computes
  not_prepared,          ///< a plan used before what it needs exists
  plan_mismatch,         ///< run() got tensors that are not those the plan was made for
  file_io,               ///< a file cannot be opened, read or written
  file_format,           ///< a file's bytes are not what its format requires
  out_of_memory,         ///< a workspace cannot be allocated
  device_failed,         ///< a CUDA call failed; the message holds its own words
};

/// The enumerator's name, e.g. "head_mismatch".
const char* name(ErrorCode code) noexcept;

/// Every error that tilefold throws. what() is one sentence that says what to change.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace tilefold
