// Attention with plain loads: every option, every element type, head dimensions 1 to 1024.
//
// Grid: one block of 128 threads a ForwardWork. For each tile of 32 keys: scores of all rows from
// K, 64 columns at a time; online softmax, one warp a row, one lane a key; output from V, 64
// columns at a time, one column a thread. All arithmetic is float32. `forward` reads formulas that
// its parameters describe, `interpreted_forward` also those that were built at run time.
#pragma once

#include "cuda/kernels/any/formula.cuh"
#include "cuda/kernels/any/shared_plan.cuh"
#include "cuda/kernels/finish.cuh"

namespace tilefold::cuda::any {

/// The larger of two, and NaN if either is.
__device__ __forceinline__ float larger_or_nan(float a, float b) {
  return a != a ? a : b != b ? b : score::larger(a, b);
}

template <class Chosen, class Formula> class Block {
 public:
  static constexpr ForwardConfig config = Chosen::value;

  __device__ Block(const ForwardParams& params, const ForwardWork& work, const Formula& formula,
                   char* shared)
      : p_(params),
        work_(work),
        s_(params.sequences[work.sequence]),
        formula_(formula),
        m_(shared, params.head_dim, params.value_dim),
        thread_(int(threadIdx.x)),
        lane_(thread_ % 32),
        warp_(thread_ / 32) {}

  __device__ void run() {
    begin();
    const KeyRange keys = s_.broken ? KeyRange{0, 0} : keys_of(p_, s_, work_);
    // Tiles start at absolute multiples, so a row's sums have one order whatever it is batched
    // with.
    for (int first = keys.begin / config.tile_keys * config.tile_keys; first < keys.end;
         first += config.tile_keys) {
      const int low = score::larger(first, work_.first_key);
      const int high = score::smaller(first + config.tile_keys, work_.last_key);
      const score::Truth answer = formula_.tile_answer(context(), work_, {low, high});
      if (answer.no()) continue;
      place_keys(first, low, high);
      score_tile(first, answer.yes() ? MaskUse::none : MaskUse::elements);
      absorb_tile();
      add_values();
    }
    __syncthreads();
    if (work_.splits > 1)
      store_part();
    else
      store_rows();
  }

 private:
  enum class MaskUse { none, elements };

  __device__ FormulaContext context() const { return {p_, s_}; }

  __device__ void begin() {
    for (int r = thread_; r < config.tile_rows; r += config.threads) {
      m_.rows[r] =
          r < work_.rows ? query_of(p_, s_, work_.kv_head, work_.first_row + r) : QueryPlace{-1, 0};
      m_.max[r] = -score::infinity<float>();
      m_.sum[r] = 0.0f;
    }
    for (int i = thread_; i < config.tile_rows * p_.value_dim; i += config.threads)
      m_.output[i] = 0.0f;
    __syncthreads();
    for (int i = thread_; i < config.tile_rows * p_.head_dim; i += config.threads)
      m_.query[i] = query_element(m_.rows[i / p_.head_dim], i % p_.head_dim);
  }
  __device__ float query_element(QueryPlace row, int column) const {
    if (row.query < 0) return 0.0f;
    const RowPlace place = query_place(s_, work_.sequence, row.query);
    const float x = load_element(p_.query.data, p_.query.type,
                                 place.offset(p_.query.strides, row.head) + column);
    return p_.query.scale == nullptr
               ? x
               : x * p_.query.scale[place.offset(p_.query.scale_strides, row.head)];
  }

  /// Keys of the tile outside [low, high) are not read.
  __device__ void place_keys(int first, int low, int high) {
    __syncthreads();
    if (thread_ >= config.tile_keys) return;
    const int key = first + thread_;
    const bool present = key >= low && key < high;
    m_.places[thread_] = present ? key_place(p_, s_, work_.sequence, key) : RowPlace{-1, 0};
  }

  __device__ void load_scales(const Operand& operand) {
    if (thread_ >= config.tile_keys) return;
    const RowPlace place = m_.places[thread_];
    m_.scales[thread_] = operand.scale == nullptr || place.outer < 0
                             ? 1.0f
                             : operand.scale[place.offset(operand.scale_strides, work_.kv_head)];
  }
  /// Columns [first, first + 64) of the tile's rows; what is not read is 0, for 0 * NaN is NaN.
  __device__ void load_chunk(const Operand& operand, int first, int columns) {
    const int column = first + thread_ % config.columns;
    for (int key = thread_ / config.columns; key < config.tile_keys;
         key += config.threads / config.columns) {
      const RowPlace place = m_.places[key];
      float x = 0.0f;
      if (place.outer >= 0 && column < columns)
        x = m_.scales[key] * load_element(operand.data, operand.type,
                                          place.offset(operand.strides, work_.kv_head) + column);
      m_.chunk[key * config.chunk_stride + thread_ % config.columns] = x;
    }
  }

  /// Scores of key `lane` with rows warp, warp + 4, ...
  __device__ void score_tile(int first_key, MaskUse mask) {
    float dot[config.rows_a_thread()] = {};
    __syncthreads();
    load_scales(p_.key);
    for (int first = 0; first < p_.head_dim; first += config.columns) {
      __syncthreads();
      load_chunk(p_.key, first, p_.head_dim);
      __syncthreads();
      const int columns = score::smaller(config.columns, p_.head_dim - first);
      for (int c = 0; c < columns; ++c) {
        const float k = m_.chunk[lane_ * config.chunk_stride + c];
#pragma unroll
        for (int i = 0; i < config.rows_a_thread(); ++i)
          dot[i] += m_.query[(warp_ + i * config.warps) * p_.head_dim + first + c] * k;
      }
    }
    int seen = 0;
#pragma unroll
    for (int i = 0; i < config.rows_a_thread(); ++i) {
      const int r = warp_ + i * config.warps;
      const float score = visible_score(r, first_key + lane_, p_.scale * dot[i], mask);
      m_.scores[r * config.score_stride + lane_] = score;
      seen |= score != -score::infinity<float>();
    }
    m_.seen[warp_ * config.tile_keys + lane_] = seen;
  }
  __device__ float visible_score(int r, int key, float score, MaskUse mask) const {
    const QueryPlace row = m_.rows[r];
    if (row.query < 0 || m_.places[lane_].outer < 0) return -score::infinity<float>();
    const score::Place place = place_of(p_, s_, work_.sequence, row.head);
    if (mask == MaskUse::elements && !formula_.keep(context(), place, {row.query, key}))
      return -score::infinity<float>();
    return formula_.change(context(), place, {row.query, key}, score);
  }

  /// Online softmax: rows of one warp, whose scores that warp wrote.
  __device__ void absorb_tile() {
    __syncwarp();
    for (int r = warp_; r < config.tile_rows; r += config.warps) {
      const float score = m_.scores[r * config.score_stride + lane_];
      const float old_max = m_.max[r];
      float max = score;
      for (int step = 16; step > 0; step /= 2)
        max = larger_or_nan(max, __shfl_xor_sync(0xffffffffu, max, step));
      max = larger_or_nan(old_max, max);
      // (-inf) - (-inf) is NaN: a hidden key weighs 0 whatever the maximum is.
      const float weight = score == -score::infinity<float>() ? 0.0f : score::exp(score - max);
      m_.scores[r * config.score_stride + lane_] = weight;
      float sum = weight;
      for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
      __syncwarp();
      if (lane_ != 0) continue;
      const float factor = fold::weight(old_max, max);
      m_.factor[r] = factor;
      m_.sum[r] = m_.sum[r] * factor + sum;
      m_.max[r] = max;
    }
  }

  /// Values of keys that no row here sees are not read.
  __device__ void drop_unseen() {
    if (thread_ >= config.tile_keys) return;
    int seen = 0;
    for (int w = 0; w < config.warps; ++w) seen |= m_.seen[w * config.tile_keys + thread_];
    if (!seen) m_.places[thread_].outer = -1;
  }
  /// output = output * factor + weights V; a thread owns a column of half of the rows.
  __device__ void add_values() {
    constexpr int rows = config.tile_rows / 2;
    const int first_row = thread_ / config.columns * rows, column = thread_ % config.columns;
    __syncthreads();
    drop_unseen();
    load_scales(p_.value);
    for (int first = 0; first < p_.value_dim; first += config.columns) {
      __syncthreads();
      load_chunk(p_.value, first, p_.value_dim);
      __syncthreads();
      if (first + column >= p_.value_dim) continue;
      float sum[rows] = {};
      for (int key = 0; key < config.tile_keys; ++key) {
        const float v = m_.chunk[key * config.chunk_stride + column];
#pragma unroll
        for (int r = 0; r < rows; ++r)
          sum[r] += m_.scores[(first_row + r) * config.score_stride + key] * v;
      }
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        float& out = m_.output[(first_row + r) * p_.value_dim + first + column];
        out = out * m_.factor[first_row + r] + sum[r];
      }
    }
  }

  __device__ void store_part() {
    const long long first = work_.part * p_.shape.tile_rows;
    for (int r = thread_; r < work_.rows; r += config.threads) {
      p_.part_max[first + r] = m_.max[r];
      p_.part_sum[first + r] = m_.sum[r];
    }
    for (int i = thread_; i < work_.rows * p_.value_dim; i += config.threads)
      p_.part_out[first * p_.value_dim + i] = m_.output[i];
  }
  __device__ void store_rows() {
    for (int r = warp_; r < work_.rows; r += config.warps) {
      const QueryPlace row = m_.rows[r];
      const RowEnd end = end_of_row(p_, s_, row.head, {m_.max[r], m_.sum[r]});
      const long long at = out_offset(p_, s_, work_.sequence, row);
      for (int c = lane_; c < p_.value_dim; c += 32)
        store_element(p_.out, p_.out_type, at + c, m_.output[r * p_.value_dim + c] * end.factor);
      if (lane_ == 0) store_lse(p_, s_, work_.sequence, row, end.lse);
    }
  }

  const ForwardParams& p_;
  const ForwardWork& work_;
  const SequenceInfo s_;
  Formula formula_;
  SharedPlan<Chosen> m_;
  int thread_, lane_, warp_;
};

template <class Chosen> __global__ void __launch_bounds__(Chosen::value.threads, 4)
    forward(const __grid_constant__ ForwardParams params) {
  extern __shared__ long long shared[];
  const ForwardWork work = work_of(params, blockIdx.x);
  if (work.rows == 0) return;
  Block<Chosen, DescribedFormula>(params, work, {}, reinterpret_cast<char*>(shared)).run();
}

/// The same with a formula that is interpreted.
template <class Chosen> __global__ void __launch_bounds__(Chosen::value.threads, 4)
    interpreted_forward(const __grid_constant__ ForwardParams params,
                        const __grid_constant__ FormulaPrograms programs) {
  extern __shared__ long long shared[];
  const ForwardWork work = work_of(params, blockIdx.x);
  if (work.rows == 0) return;
  const InterpretedFormula<Chosen::value.tile_keys> formula(programs);
  Block<Chosen, InterpretedFormula<Chosen::value.tile_keys>>(params, work, formula,
                                                             reinterpret_cast<char*>(shared))
      .run();
}

}  // namespace tilefold::cuda::any
