// From the sums of warps that share rows (Share::columns) to device memory.
#pragma once

#include "cuda/kernels/finish.cuh"
#include "cuda/kernels/sm80/columns_compute.cuh"
#include "cuda/kernels/sm80/epilogue.cuh"

namespace tilefold::cuda::sm80 {

template <class Chosen> class ColumnEpilogue {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  using Work = ColumnComputer<Chosen>;

  __device__ __forceinline__ ColumnEpilogue(const ForwardParams& params, const ForwardWork& work,
                                            const Row* rows, SharedRow* shared_rows)
      : params_(params),
        sequence_(params.sequences[work.sequence]),
        work_(work),
        rows_(rows),
        shared_rows_(shared_rows) {}

  /// c and scale as the softmax had them. All threads of the block call it.
  __device__ __forceinline__ void store(Work& done, float c, float scale) const {
    const WarpPlace at = WarpPlace::again();
    __syncthreads();  // all have read what the last tile left in the shared rows
    gather_sums(done, at);
    __syncthreads();
    close_rows(done.softmax.exact_shift, c, scale);
    __syncthreads();
    done.multiply(shared_rows_ + at.first_row);
    if (work_.splits > 1)
      store_part(done, at);
    else if (wide_rows<config.type>(params_))
      store_wide(done, at);
    else
      store_narrow(done, at);
  }

 private:
  /// Each warp's sums of its keys, and the maxima, which the warps of a row have in common.
  __device__ __forceinline__ void gather_sums(const Work& done, const WarpPlace& at) const {
    const int lane = ptx::thread_again() % 32;
#pragma unroll
    for (int r = 0; r < Work::rows; ++r) {
      const float sum = quad_sum(done.softmax.sum[r]);
      SharedRow& row = shared_rows_[at.score_row() + 8 * r + lane / 4];
      if (lane % 4 == 0) row.half[at.keys_half] = sum;
      if (lane % 4 == 0 && at.keys_half == 0) row.factor = done.softmax.top[r];
    }
  }

  /// A thread a row. What hidden NaN values left in the sums of a row without a visible key must
  /// not count: `stored` is 2 there.
  __device__ __forceinline__ void close_rows(float exact_shift, float c, float scale) const {
    const int r = int(threadIdx.x);
    if (r >= config.tile_rows()) return;
    SharedRow& mine = shared_rows_[r];
    const Row row = rows_[r];
    const fold::Part<float> part =
        natural_part(mine.half[0] + mine.half[1], mine.factor, c, scale, exact_shift);
    const bool exists = row.query >= 0;
    mine.stored = exists ? (part.is_empty() ? 2 : 1) : 0;
    mine.factor = part.is_empty() ? 0.0f : 1.0f;
    if (work_.splits > 1) {
      const long long place = work_.part * params_.shape.tile_rows + r;
      mine.place = place * params_.value_dim;
      if (exists) params_.part_max[place] = part.max, params_.part_sum[place] = part.sum;
      return;
    }
    const RowEnd end = end_of_row(params_, sequence_, row.head, part);
    mine.factor = end.factor;
    mine.place = out_offset(params_, sequence_, work_.sequence, {exists ? row.query : 0, row.head});
    if (exists) store_lse(params_, sequence_, work_.sequence, {row.query, row.head}, end.lse);
  }

  /// Calls `store` with every row of this thread that is stored, and its number among 8.
  template <class Store> __device__ __forceinline__ void for_rows(Work& done, const WarpPlace& at,
                                                                  const Store& store) const {
    const int lane = ptx::thread_again() % 32;
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      const SharedRow& row = shared_rows_[at.first_row + 8 * r + lane / 4];
      if (row.stored == 2) {
#pragma unroll
        for (int g = 0; g < Work::columns / 8; ++g)
          done.output[r / 2][g][r % 2 * 2] = done.output[r / 2][g][r % 2 * 2 + 1] = row.factor;
      }
      store(row, r, lane);
    }
  }

  __device__ __forceinline__ void store_part(Work& done, const WarpPlace& at) const {
    for_rows(done, at, [&](const SharedRow& row, int r, int lane) {
      if (row.stored == 0) return;
      const int first = at.quarter * Work::columns + 2 * (lane % 4);
      float* out = params_.part_out + row.place + first;
#pragma unroll
      for (int g = 0; g < Work::columns / 8; ++g) {
        if (first + 8 * g >= params_.value_dim) break;
        out[8 * g] = done.output[r / 2][g][r % 2 * 2];
        out[8 * g + 1] = done.output[r / 2][g][r % 2 * 2 + 1];
      }
    });
  }

  /// All lanes take part in the transposes; a quarter that is no multiple of 32 columns ends in a
  /// group of two words.
  __device__ __forceinline__ void store_wide(Work& done, const WarpPlace& at) const {
    for_rows(done, at, [&](const SharedRow& row, int r, int lane) {
      unsigned short* out = static_cast<unsigned short*>(params_.out) + row.place;
#pragma unroll
      for (int g = 0; g < Work::columns / 8; g += 4) {
        unsigned word[4] = {};
#pragma unroll
        for (int c = 0; c < 4; ++c)
          if (g + c < Work::columns / 8)
            word[c] = ptx::pack<config.type>(done.output[r / 2][g + c][r % 2 * 2],
                                             done.output[r / 2][g + c][r % 2 * 2 + 1]);
        quad_transpose(word, lane);
        const bool there = g + lane % 4 < Work::columns / 8;
        const int column = at.quarter * Work::columns + 8 * (g + lane % 4);
        if (row.stored != 0 && there && column < params_.value_dim)
          *reinterpret_cast<uint4*>(out + column) = uint4{word[0], word[1], word[2], word[3]};
      }
    });
  }

  __device__ __forceinline__ void store_narrow(Work& done, const WarpPlace& at) const {
    for_rows(done, at, [&](const SharedRow& row, int r, int lane) {
      if (row.stored == 0) return;
      const int first = at.quarter * Work::columns + 2 * (lane % 4);
#pragma unroll
      for (int g = 0; g < Work::columns / 8; ++g) {
        if (first + 8 * g >= params_.value_dim) break;
#pragma unroll
        for (int e = 0; e < 2; ++e)
          store_element(params_.out, params_.out_type, row.place + first + 8 * g + e,
                        done.output[r / 2][g][r % 2 * 2 + e]);
      }
    });
  }

  const ForwardParams& params_;
  const SequenceInfo& sequence_;
  const ForwardWork& work_;
  const Row* rows_;
  SharedRow* shared_rows_;
};

}  // namespace tilefold::cuda::sm80
