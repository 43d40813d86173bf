// What a family of CPU tile arithmetic provides: the five steps of attention on one tile.
//
// Everything lies with the query row in the vector lane: scores are [key][lane], the output
// accumulator is [value column][lane]. So keys and values are read as they are stored (one scalar
// broadcast a multiply-add), a row's maximum and sum are plain vertical operations, and a lane's
// bits depend on its own row only: neither the number of rows nor their order changes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tilefold/dtype.hpp"

namespace tilefold::cpu {

/// Keys or values of one tile in the kernel's element type: row r starts at data + r * row_stride
/// elements and has `columns` elements. No element outside them may be read.
struct TileRows {
  const void* data = nullptr;
  std::int64_t row_stride = 0;
  int rows = 0, columns = 0;
};

/// How a kernel that multiplies weights in 16 bits takes them: rounded once, or rounded and the
/// rounded rest (docs/numerics.md). Others keep what they have.
enum class WeightParts { one, two };

/// Online softmax of one tile of query rows. F is float, or double for f64 inputs.
template <class F> struct RowState {
  F* max;     // [lanes], -inf at the start
  F* sum;     // [lanes], 0 at the start
  F* output;  // [value_dim][lanes], not yet divided; 0 at the start
};

template <class F> class TileKernel {
 public:
  virtual ~TileKernel() = default;
  virtual const char* name() const = 0;
  /// Query rows of a tile, at most 64; every [..][lane] array has this many lanes, 64-byte aligned.
  virtual int lanes() const = 0;
  /// Keys of a tile, at most 64.
  virtual int tile_keys() const = 0;
  /// Sums run over groups of this many keys, counted from a tile's first: the caller starts tiles
  /// at multiples of it, so that a key's place in its group does not depend on what else is hidden.
  virtual int key_step() const { return 1; }
  /// The element type that TileRows hold: f32, f64 or bf16. The caller converts other types.
  virtual DType element() const = 0;

  /// Brackets a thread's run of steps, so that registers which cost to set up are set up once: the
  /// AMX kernel's tile configuration takes 175 cycles of 2.6 GHz, a tenth of a tile's time.
  /// Optional: a step outside of the brackets sets up and clears by itself. Not nested; nothing
  /// else on this thread may use such registers in between.
  virtual void begin_thread() const {}
  virtual void end_thread() const {}

  /// Bytes of a packed tile of queries, keys, values and weights in two parts; multiples of 64, 0
  /// where the kernel reads the rows as they are.
  virtual std::size_t packed_query_bytes(int head_dim) const = 0;
  virtual std::size_t packed_key_bytes(int head_dim) const = 0;
  virtual std::size_t packed_value_bytes(int value_dim) const = 0;
  virtual std::size_t weight_bytes() const = 0;

  /// rows.rows <= lanes(): lanes past them become zeros.
  virtual void pack_query(const TileRows& rows, void* packed) const = 0;
  /// Once a key tile, before the block's query tiles read it.
  virtual void pack_key(const TileRows& rows, void* packed) const = 0;
  virtual void pack_value(const TileRows& rows, void* packed) const = 0;

  /// scores[key][lane] = scale * dot(query lane, key), for every key of the tile. `scores` has room
  /// for tile_keys() keys, and rows past the tile's may be overwritten.
  virtual void scores(const void* packed_query, const TileRows& keys, const void* packed_keys,
                      F scale, F* scores) const = 0;
  /// Online softmax: raises state.max, multiplies sum and output by exp(old max - new max), adds
  /// the tile's weights to sum and leaves weights[...] for accumulate(). A score of -inf weighs
  /// exactly 0; a row whose maximum is -inf keeps sum 0; NaN stays NaN. A kernel may leave max up
  /// to 8 below the row's largest score, which saves most rescaling: (max, sum, output) mean the
  /// same either way.
  virtual void absorb(F* scores, int keys, int value_dim, const RowState<F>& state,
                      WeightParts parts, void* weights) const = 0;
  /// output[column][lane] += sum over keys of weight[key][lane] * value[key][column].
  virtual void accumulate(const void* weights, const TileRows& values, const void* packed_values,
                          F* output) const = 0;
};

/// The kernels this machine can run, best first for each element type. Highway kernels take the
/// best target at run time; the bf16 ones exist only where the CPU has AMX or AVX512-BF16.
std::span<const TileKernel<float>* const> float_kernels();
const TileKernel<double>& double_kernel();

}  // namespace tilefold::cpu
