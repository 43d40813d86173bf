// Tile arithmetic in f32 and f64 for every Highway target.
//
// Both products are outer products held in registers: `Vectors` vectors of query rows times `Count`
// keys (scores) or value columns (accumulate). On AVX-512, 3 x 8 accumulators, 3 vectors of rows
// and a broadcast fill 28 of the 32 registers; each step of the inner loop is 24 multiply-adds for
// 11 loads. With 16 registers 3 x 4 accumulators leave room for the rest.
//
// Wide kernels pack values into panels of kBlockRows columns, [panel][key][column]: accumulate then
// reads them as one stream, and the packing takes the place of the copy that rows a page apart
// need.
#include "cpu/highway_kernel.hpp"
#include "cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/highway_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilefold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kBlockRows = 8;  // 32 vector registers
#else
constexpr int kBlockRows = 4;  // 16 vector registers
#endif

/// out[r][lane] = scale * sum over d of query[d][lane] * key[r][d], for Count keys.
template <int Vectors, int Count, class D, class F = hn::TFromD<D>>
HWY_INLINE void ScoreBlock(D d, const F* HWY_RESTRICT query, int lanes, const F* HWY_RESTRICT key,
                           std::int64_t key_stride, int head_dim, F scale, F* HWY_RESTRICT out) {
  using V = hn::Vec<D>;
  const int step = int(hn::Lanes(d));
  V sum[Count][Vectors];
  const F* row[Count];
  HWY_UNROLL(8)
  for (int r = 0; r < Count; ++r) {
    row[r] = key + r * key_stride;
    HWY_UNROLL(3)
    for (int v = 0; v < Vectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (std::int64_t i = 0; i < head_dim; ++i, query += lanes) {
    V q[Vectors];
    HWY_UNROLL(3)
    for (int v = 0; v < Vectors; ++v) q[v] = hn::Load(d, query + v * step);
    HWY_UNROLL(8)
    for (int r = 0; r < Count; ++r) {
      const V k = hn::Set(d, row[r][i]);
      HWY_UNROLL(3)
      for (int v = 0; v < Vectors; ++v) sum[r][v] = hn::MulAdd(q[v], k, sum[r][v]);
    }
  }
  const V factor = hn::Set(d, scale);
  HWY_UNROLL(8)
  for (int r = 0; r < Count; ++r) {
    HWY_UNROLL(3)
    for (int v = 0; v < Vectors; ++v)
      hn::Store(hn::Mul(sum[r][v], factor), d, out + r * lanes + v * step);
  }
}

/// output[c][lane] += sum over keys of weight[key][lane] * value[key][c], for Count columns.
template <int Vectors, int Count, class D, class F = hn::TFromD<D>>
HWY_INLINE void AccumulateBlock(D d, const F* HWY_RESTRICT weight, int lanes,
                                const F* HWY_RESTRICT value, std::int64_t value_stride, int keys,
                                F* HWY_RESTRICT output) {
  using V = hn::Vec<D>;
  const int step = int(hn::Lanes(d));
  V sum[Count][Vectors];
  HWY_UNROLL(8)
  for (int c = 0; c < Count; ++c) {
    HWY_UNROLL(3)
    for (int v = 0; v < Vectors; ++v) sum[c][v] = hn::Zero(d);
  }
  for (int key = 0; key < keys; ++key, weight += lanes, value += value_stride) {
    V w[Vectors];
    HWY_UNROLL(3)
    for (int v = 0; v < Vectors; ++v) w[v] = hn::Load(d, weight + v * step);
    HWY_UNROLL(8)
    for (int c = 0; c < Count; ++c) {
      const V x = hn::Set(d, value[c]);
      HWY_UNROLL(3)
      for (int v = 0; v < Vectors; ++v) sum[c][v] = hn::MulAdd(w[v], x, sum[c][v]);
    }
  }
  // The tile's sum is added to the output at once: an error of many short chains, not of a long
  // one.
  HWY_UNROLL(8)
  for (int c = 0; c < Count; ++c) {
    HWY_UNROLL(3)
    for (int v = 0; v < Vectors; ++v) {
      F* at = output + c * lanes + v * step;
      hn::Store(hn::Add(hn::Load(d, at), sum[c][v]), d, at);
    }
  }
}

/// Calls step(first, integral_constant<int, Count>) until `count` is covered, in powers of two.
template <int Count, class Step> HWY_INLINE void ForBlocks(int first, int count, const Step& step) {
  for (; first + Count <= count; first += Count) step(first, std::integral_constant<int, Count>());
  if constexpr (Count > 1) ForBlocks<Count / 2>(first, count, step);
}

enum class ValueRows { in_place, packed };

template <class F> class HighwayKernel final : public TileKernel<F> {
 public:
  HighwayKernel(const char* name, int lanes, ValueRows values)
      : name_(name), lanes_(lanes), values_(values) {}
  const char* name() const override { return name_; }
  int lanes() const override { return lanes_; }
  int tile_keys() const override { return kTileKeys; }
  DType element() const override { return dtype_of_type<F>::value; }
  std::size_t packed_query_bytes(int head_dim) const override {
    return sizeof(F) * std::size_t(head_dim) * std::size_t(lanes_);
  }
  std::size_t packed_key_bytes(int) const override { return 0; }
  std::size_t packed_value_bytes(int value_dim) const override {
    if (values_ == ValueRows::in_place) return 0;
    return sizeof(F) * std::size_t((value_dim + kBlockRows - 1) / kBlockRows * kPanel);
  }
  std::size_t weight_bytes() const override { return 0; }  // weights overwrite the scores

  void pack_query(const TileRows& rows, void* packed) const override {
    F* to = static_cast<F*>(packed);
    for (int i = 0; i < rows.columns; ++i, to += lanes_) {
      const F* from = static_cast<const F*>(rows.data) + i;
      for (int lane = 0; lane < rows.rows; ++lane, from += rows.row_stride) to[lane] = *from;
      for (int lane = rows.rows; lane < lanes_; ++lane) to[lane] = F(0);
    }
  }
  void pack_key(const TileRows&, void*) const override {}
  void pack_value(const TileRows& rows, void* packed) const override {
    if (values_ == ValueRows::in_place) return;
    const F* from = static_cast<const F*>(rows.data);
    F* to = static_cast<F*>(packed);
    const int whole = rows.columns / kBlockRows * kBlockRows;
    for (int key = 0; key < rows.rows; ++key, from += rows.row_stride, to += kBlockRows) {
      F* panel = to;
      for (int c = 0; c < whole; c += kBlockRows, panel += kPanel)
        for (int i = 0; i < kBlockRows; ++i) panel[i] = from[c + i];
      for (int i = 0; i < rows.columns - whole; ++i) panel[i] = from[whole + i];
    }
  }

  void scores(const void* packed_query, const TileRows& keys, const void*, F scale,
              F* scores) const override {
    const F* query = static_cast<const F*>(packed_query);
    const F* key = static_cast<const F*>(keys.data);
    ForVectors([&](auto vectors, int lane) {
      ForBlocks<kBlockRows>(0, keys.rows, [&](int first, auto count) {
        ScoreBlock<vectors(), count()>(d_, query + lane, lanes_, key + first * keys.row_stride,
                                       keys.row_stride, keys.columns, scale,
                                       scores + first * lanes_ + lane);
      });
    });
  }
  void absorb(F* scores, int keys, int value_dim, const RowState<F>& state, WeightParts,
              void* weights) const override {
    F* to = static_cast<F*>(weights);
    Absorb(d_, scores, keys, lanes_, value_dim, state, [&](int key, int lane, auto weight) {
      hn::Store(weight, d_, to + key * lanes_ + lane);
    });
  }
  void accumulate(const void* weights, const TileRows& values, const void* packed_values,
                  F* output) const override {
    const F* weight = static_cast<const F*>(weights);
    const bool packed = values_ == ValueRows::packed;
    const F* value = static_cast<const F*>(packed ? packed_values : values.data);
    const std::int64_t stride = packed ? kBlockRows : values.row_stride;
    ForVectors([&](auto vectors, int lane) {
      ForBlocks<kBlockRows>(0, values.columns, [&](int first, auto count) {
        // Blocks of fewer columns than a panel end the last panel.
        const int at = packed ? first / kBlockRows * kPanel + first % kBlockRows : first;
        AccumulateBlock<vectors(), count()>(d_, weight + lane, lanes_, value + at, stride,
                                            values.rows, output + first * lanes_ + lane);
      });
    });
  }

 private:
  /// Calls step(integral_constant<int, Vectors>, first lane) over all lanes, with the widest block
  /// of vectors that divides them.
  template <class Step> HWY_INLINE void ForVectors(const Step& step) const {
    const int width = int(hn::Lanes(d_)), vectors = lanes_ / width;
    const auto pass = [&](auto block) {
      for (int lane = 0; lane < lanes_; lane += block() * width) step(block, lane);
    };
    if (vectors % 3 == 0) return pass(std::integral_constant<int, 3>());
    if (vectors % 2 == 0) return pass(std::integral_constant<int, 2>());
    pass(std::integral_constant<int, 1>());
  }

  static constexpr hn::ScalableTag<F> d_{};
  static constexpr int kTileKeys = 64, kPanel = kTileKeys * kBlockRows;
  const char* name_;
  int lanes_;
  ValueRows values_;
};

#if HWY_TARGET == HWY_AVX3
#define TILEFOLD_TARGET_NAME "avx3"
#elif HWY_TARGET == HWY_AVX2
#define TILEFOLD_TARGET_NAME "avx2"
#elif HWY_TARGET == HWY_SSE4
#define TILEFOLD_TARGET_NAME "sse4"
#elif HWY_TARGET == HWY_NEON
#define TILEFOLD_TARGET_NAME "neon"
#else
#define TILEFOLD_TARGET_NAME "portable"
#endif

// 48 f32 rows are 3 vectors of 16, 6 of 8 or 12 of 4: each a multiple of 3. 24 f64 rows likewise.
const TileKernel<float>* F32Kernel(LaneCount lanes) {
  static const HighwayKernel<float> wide("cpu/f32/" TILEFOLD_TARGET_NAME, 48, ValueRows::packed);
  static const HighwayKernel<float> narrow("cpu/f32/" TILEFOLD_TARGET_NAME, 16,
                                           ValueRows::in_place);
  return lanes == LaneCount::wide ? &wide : &narrow;
}
const TileKernel<double>* F64Kernel(LaneCount lanes) {
  static const HighwayKernel<double> wide("cpu/f64/" TILEFOLD_TARGET_NAME, 24, ValueRows::packed);
  static const HighwayKernel<double> narrow("cpu/f64/" TILEFOLD_TARGET_NAME, 8,
                                            ValueRows::in_place);
  return lanes == LaneCount::wide ? &wide : &narrow;
}
#undef TILEFOLD_TARGET_NAME

}  // namespace tilefold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilefold::cpu {

HWY_EXPORT(F32Kernel);
HWY_EXPORT(F64Kernel);

const TileKernel<float>& highway_f32_kernel(LaneCount lanes) {
  return *HWY_DYNAMIC_DISPATCH(F32Kernel)(lanes);
}
const TileKernel<double>& highway_f64_kernel(LaneCount lanes) {
  return *HWY_DYNAMIC_DISPATCH(F64Kernel)(lanes);
}

int highway_target_count() { return int(hwy::SupportedAndGeneratedTargets().size()); }
void bind_highway_target(int index) {
  hwy::GetChosenTarget().Update(hwy::SupportedAndGeneratedTargets()[std::size_t(index)]);
}

}  // namespace tilefold::cpu
#endif
