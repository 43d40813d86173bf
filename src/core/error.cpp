#include "tilefold/error.hpp"

namespace tilefold {

const char* name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::shape_mismatch: return "shape_mismatch";
    case ErrorCode::head_mismatch: return "head_mismatch";
    case ErrorCode::dtype_mismatch: return "dtype_mismatch";
    case ErrorCode::device_mismatch: return "device_mismatch";
    case ErrorCode::stride_unsupported: return "stride_unsupported";
    case ErrorCode::misaligned: return "misaligned";
    case ErrorCode::length_invalid: return "length_invalid";
    case ErrorCode::capacity_exceeded: return "capacity_exceeded";
    case ErrorCode::page_out_of_range: return "page_out_of_range";
    case ErrorCode::overlap: return "overlap";
    case ErrorCode::missing_argument: return "missing_argument";
    case ErrorCode::conflicting_argument: return "conflicting_argument";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::not_prepared: return "not_prepared";
    case ErrorCode::plan_mismatch: return "plan_mismatch";
    case ErrorCode::file_io: return "file_io";
    case ErrorCode::file_format: return "file_format";
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::device_failed: return "device_failed";
  }
  return "unknown";
}

}  // namespace tilefold
