// Brings the next tile's rows towards the cache a few lines at a time, between pieces of the
// current tile's arithmetic. Rows of one head lie a page or more apart in most layouts, where no
// hardware prefetcher follows; issued all at once the requests would fill the line buffers and
// stall.
#pragma once

#include <algorithm>

#include "cpu/gather.hpp"

namespace tilefold::cpu {

class Prefetcher {
 public:
  /// Nothing to fetch.
  Prefetcher() = default;
  /// The keys [first, last) and their values, over `steps` calls of step().
  Prefetcher(const KeyRows& keys, const KeyRows& values, const KeyRows::Request& tile, int steps)
      : tensors_{&keys, &values}, tile_(tile), key_(tile.first) {
    const std::int64_t lines = lines_of(keys) + lines_of(values);
    lines_a_step_ = int(lines * (tile.last - tile.first) / std::max(steps, 1) + 1);
  }

  /// Nothing is left to fetch.
  bool is_idle() const { return key_ >= tile_.last; }
  void step() {
    for (int left = lines_a_step_; left > 0 && key_ < tile_.last; --left) {
      if (line_ == 0) row_ = tensors_[tensor_]->stored_row(tile_.sequence, tile_.kv_head, key_);
      if (row_ != nullptr) __builtin_prefetch(row_ + line_ * line_bytes, 0, 2);
      if (++line_ >= lines_of(*tensors_[tensor_])) next_row();
    }
  }

 private:
  static constexpr std::int64_t line_bytes = 64;
  static std::int64_t lines_of(const KeyRows& rows) {
    return (rows.stored_row_bytes() + line_bytes - 1) / line_bytes;
  }
  void next_row() {
    line_ = 0;
    if (++key_ == tile_.last && tensor_ == 0) {
      tensor_ = 1;
      key_ = tile_.first;
    }
  }

  const KeyRows* tensors_[2] = {};
  KeyRows::Request tile_{};
  int tensor_ = 0, key_ = 0, lines_a_step_ = 0;
  std::int64_t line_ = 0;
  const char* row_ = nullptr;
};

}  // namespace tilefold::cpu
