// Working memory of the CPU backend, carved from one block: the same code counts it and hands it
// out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "cpu/score_steps.hpp"
#include "cpu/tile_kernel.hpp"

namespace tilefold::cpu {

/// Hands out 64-byte aligned pieces in turn. Over a null base it only counts.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<char*>(base)) {}
  template <class T> T* take(std::size_t count) {
    char* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(piece);
  }
  std::size_t used() const { return used_; }

 private:
  char* base_;
  std::size_t used_ = 0;
};

/// Sizes that scratch depends on.
struct BlockShape {
  int tiles;  // query tiles of a block
  int head_dim, value_dim;
};

/// Online softmax of a block of query tiles; tile t's arrays follow tile t-1's.
template <class F> struct BlockState {
  F* max;
  F* sum;
  F* output;
  int lanes, value_dim;

  static BlockState carve(Carver& carver, int tiles, int lanes, int value_dim) {
    const std::size_t rows = std::size_t(tiles) * std::size_t(lanes);
    F* max = carver.take<F>(rows);
    F* sum = carver.take<F>(rows);
    return {max, sum, carver.take<F>(rows * std::size_t(value_dim)), lanes, value_dim};
  }
  RowState<F> tile(int t) const {
    const std::ptrdiff_t first = std::ptrdiff_t(t) * lanes;
    return {max + first, sum + first, output + first * value_dim};
  }
  void clear(int tiles) const {
    const std::ptrdiff_t rows = std::ptrdiff_t(tiles) * lanes;
    std::fill(max, max + rows, -std::numeric_limits<F>::infinity());
    std::fill(sum, sum + rows, F(0));
    std::fill(output, output + rows * value_dim, F(0));
  }
};

/// What one thread needs for one block. Row buffers hold rows in the kernel's element type.
template <class F> struct Scratch {
  char *query_rows, *key_rows, *value_rows;
  char *packed_query, *packed_key, *packed_value;
  F *scores, *weights;
  unsigned char* flags;  // [key][lane], the mask's answers
  F* slope;              // [lane], ALiBi
  LaneInt<F>* distance;  // [lane], ALiBi
  F* row;                // one row of bias or of output
  BlockState<F> state;

  static Scratch carve(Carver& carver, const TileKernel<F>& kernel, const BlockShape& shape) {
    const std::size_t lanes = std::size_t(kernel.lanes()), keys = std::size_t(kernel.tile_keys());
    const std::size_t element = std::size_t(bytes_of(kernel.element()));
    const std::size_t key_columns = std::size_t(shape.head_dim);
    const std::size_t value_columns = std::size_t(shape.value_dim);
    Scratch s{};
    s.query_rows = carver.take<char>(lanes * key_columns * element);
    s.key_rows = carver.take<char>(keys * key_columns * element);
    s.value_rows = carver.take<char>(keys * value_columns * element);
    s.packed_query =
        carver.take<char>(std::size_t(shape.tiles) * kernel.packed_query_bytes(shape.head_dim));
    s.packed_key = carver.take<char>(kernel.packed_key_bytes(shape.head_dim));
    s.packed_value = carver.take<char>(kernel.packed_value_bytes(shape.value_dim));
    s.scores = carver.take<F>(keys * lanes);
    // A kernel that states no weight bytes lets them overwrite the scores.
    const std::size_t weight_bytes = kernel.weight_bytes();
    s.weights =
        weight_bytes == 0 ? s.scores : reinterpret_cast<F*>(carver.take<char>(weight_bytes));
    s.flags = carver.take<unsigned char>(keys * lanes);
    s.slope = carver.take<F>(lanes);
    s.distance = carver.take<LaneInt<F>>(lanes);
    s.row = carver.take<F>(std::max(keys, value_columns));
    s.state = BlockState<F>::carve(carver, shape.tiles, kernel.lanes(), shape.value_dim);
    return s;
  }
};

}  // namespace tilefold::cpu
