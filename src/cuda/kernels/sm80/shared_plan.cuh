// Where things lie in a block's shared memory, in bytes from its start.
//
//   query   [tile_rows][head_dim]             swizzled, 16-bit
//   stages  [stages] of key [tile_keys][head_dim] and value [tile_keys][value_dim], swizzled
//   weights [tile_rows][tile_keys], swizzled, 16-bit; only where warps share rows
//   rows    [tile_rows] of Row
//   shared  [tile_rows] of SharedRow; only where warps share rows
//   spans   [warps] of KeySpan, each of a warp's rows
//   work    BlockWork
#pragma once

#include "cuda/kernels/forward_params.cuh"
#include "cuda/kernels/sm80/config.hpp"
#include "cuda/kernels/sm80/rows.hpp"

namespace tilefold::cuda::sm80 {

/// What one block computes and reads, the same for all its threads. It stays in shared memory: the
/// key loop would miss the registers.
struct BlockWork {
  ForwardWork work;
  const char* key;      // key 0 (paged: page 0) of the KV head
  const char* value;    // likewise
  KeyRange wanted;      // keys that some row may see
  bool splits_weights;  // WeightParts::two
};

/// Where the block's K and V start, and which of them it wants: none of a broken sequence.
TILEFOLD_HD BlockWork block_work(const ForwardParams& params, const ForwardWork& work) {
  if (work.rows == 0) return {work, nullptr, nullptr, {0, 0}, false};
  const SequenceInfo& s = params.sequences[work.sequence];
  const RowPlace first = is_paged(params) ? RowPlace{0, 0} : RowPlace{work.sequence, s.key_begin};
  const auto start = [&](const Operand& operand) {
    return static_cast<const char*>(operand.data) + 2 * first.offset(operand.strides, work.kv_head);
  };
  const KeyRange wanted = s.broken ? KeyRange{0, 0} : keys_of(params, s, work);
  return {work, start(params.key), start(params.value), wanted, splits_weights(params, s, work)};
}

template <class Chosen> struct SharedPlan {
  static constexpr ForwardConfig config = Chosen::value;
  static constexpr int query = 0;
  static constexpr int stages = query + config.query_bytes();
  static constexpr int stage_bytes = config.key_bytes() + config.value_bytes();
  static constexpr int weights = stages + config.stages * stage_bytes;
  static constexpr int rows = weights + config.weight_bytes();
  static_assert(stages % 128 == 0 && stage_bytes % 128 == 0, "swizzled tiles start on lines");
  static constexpr int shared_rows = rows + config.row_table_bytes();
  static constexpr int spans = shared_rows + config.shared_row_bytes();
  static constexpr int work = spans + config.warps * int(sizeof(KeySpan));
  static_assert(work + int(sizeof(BlockWork)) <= config.shared_bytes(), "the plan fits");

  TILEFOLD_HD static constexpr int key(int stage) { return stages + stage * stage_bytes; }
  TILEFOLD_HD static constexpr int value(int stage) { return key(stage) + config.key_bytes(); }
};

}  // namespace tilefold::cuda::sm80
