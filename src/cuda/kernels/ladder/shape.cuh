// The problem that every rung of the ladder computes, and where its rows lie.
//
// Dense [batch, length, heads, head_dim] tensors, rows of one head heads * head_dim elements apart;
// as many KV heads as query heads. Read by host and device; no toolkit and no standard header.
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::cuda::ladder {

enum class Visible { all_keys, causal };

/// Elements of queries, keys and values; the output has the same.
enum class Element { float32, float16, bfloat16 };

struct Shape {
  int batch = 1, heads = 1;
  int query_length = 0, key_length = 0;  // any, 0 included; they may differ
  int head_dim = 64;                     // 64 or 128
  Visible visible = Visible::all_keys;
  float scale = 0.125f;  // of the scores, usually 1/sqrt(head_dim)

  TILEFOLD_HD constexpr int heads_in_all() const { return batch * heads; }
  TILEFOLD_HD constexpr long long row_stride() const { return (long long)heads * head_dim; }

  /// Keys that a query sees: the first so many. Causal is bottom-right: query i sees key j where
  /// j <= i + key_length - query_length, by positions in the whole row, never within a tile.
  TILEFOLD_HD constexpr int keys_seen(int query) const {
    if (visible == Visible::all_keys) return key_length;
    const int last = query + key_length - query_length;
    return last < 0 ? 0 : (last + 1 < key_length ? last + 1 : key_length);
  }
  /// First query that sees the key; query_length where none does.
  TILEFOLD_HD constexpr int first_query_seeing(int key) const {
    if (visible == Visible::all_keys) return 0;
    const int first = key - (key_length - query_length);
    return first < 0 ? 0 : (first < query_length ? first : query_length);
  }
  /// Where (sequence, row 0, head) lies; `head_index` counts sequence * heads + head.
  TILEFOLD_HD constexpr long long head_offset(int head_index, int length) const {
    const int sequence = head_index / heads, head = head_index % heads;
    return (long long)sequence * length * row_stride() + (long long)head * head_dim;
  }
};

/// Tiles of `tile` rows that cover `length` rows.
TILEFOLD_HD constexpr int tiles_over(int length, int tile) { return (length + tile - 1) / tile; }

/// What a kernel gets: pointers to whole tensors, 16-byte aligned.
template <class T> struct Operands {
  const T* query;
  const T* key;
  const T* value;
  T* out;
  float* workspace;  // what the rung's workspace_bytes() asked for
};

/// The query rows of one head that a block owns: its index in a one-dimensional grid, which is
/// split so that neither batch nor heads ever meet the 65535 of a grid's y and z.
struct QueryTile {
  int head_index, first_query;
};
TILEFOLD_HD QueryTile query_tile(unsigned block, int tiles, int tile) {
  return {int(block / unsigned(tiles)), int(block % unsigned(tiles)) * tile};
}

}  // namespace tilefold::cuda::ladder
