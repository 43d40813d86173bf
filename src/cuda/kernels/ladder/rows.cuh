// Rows of a head between device and shared memory, and maxima and sums across a few lanes.
#pragma once

#include "cuda/kernels/ladder/shape.cuh"

namespace tilefold::cuda::ladder {

/// Sixteen bytes: the widest load of one thread.
template <class T> struct alignas(16) Pack {
  static constexpr int size = 16 / int(sizeof(T));
  T element[size];
};

template <class T> __device__ const Pack<T>& pack_at(const T* shared) {
  return *reinterpret_cast<const Pack<T>*>(shared);
}
template <class T> __device__ Pack<T>& pack_at(T* shared) {
  return *reinterpret_cast<Pack<T>*>(shared);
}

/// The block's dynamic shared memory, seen as a kernel's plan of it.
template <class Plan> __device__ Plan& shared_plan() {
  extern __shared__ char shared_memory[];
  return *reinterpret_cast<Plan*>(shared_memory);
}

/// The rows of one head in device memory.
template <class T> struct HeadRows {
  const T* first;
  long long stride;  // elements from row to row
  int length;        // rows that exist
};

template <class T>
__device__ HeadRows<T> queries_of(const Operands<T>& operands, const Shape& shape, int head_index) {
  return {operands.query + shape.head_offset(head_index, shape.query_length), shape.row_stride(),
          shape.query_length};
}
template <class T>
__device__ HeadRows<T> keys_of(const Operands<T>& operands, const Shape& shape, int head_index) {
  return {operands.key + shape.head_offset(head_index, shape.key_length), shape.row_stride(),
          shape.key_length};
}
template <class T>
__device__ HeadRows<T> values_of(const Operands<T>& operands, const Shape& shape, int head_index) {
  return {operands.value + shape.head_offset(head_index, shape.key_length), shape.row_stride(),
          shape.key_length};
}
template <class T>
__device__ T* out_row(const Operands<T>& operands, const Shape& shape, int head_index, int query) {
  return operands.out + shape.head_offset(head_index, shape.query_length) +
         query * shape.row_stride();
}

/// Distance of rows in shared memory, in elements: 16 bytes more than the row. 64 and 128 floats
/// are multiples of the 32 banks, so that without it one column of 32 rows lies in a single bank;
/// with it, the 16-byte loads of 8 lanes from 8 successive rows touch all 32 banks once.
template <class T, int columns> constexpr int padded_stride = columns + Pack<T>::size;

/// The block copies rows [row, row + rows) to shared memory. Rows that do not exist become zeros: a
/// stale NaN in a value row would pass through a weight of 0, for 0 * NaN is NaN.
template <int threads, int rows, int columns, int stride, class T>
__device__ void copy_rows(T* shared, HeadRows<T> head, int row) {
  constexpr int packs = columns / Pack<T>::size;
  for (int i = int(threadIdx.x); i < rows * packs; i += threads) {
    const int r = i / packs, column = i % packs * Pack<T>::size;
    Pack<T> pack{};
    if (row + r < head.length) pack = pack_at(head.first + (row + r) * head.stride + column);
    pack_at(shared + r * stride + column) = pack;
  }
}

/// Four products at a time, the float32 arithmetic of rungs 2 to 4.
__device__ inline float add_dot(float sum, const Pack<float>& a, const Pack<float>& b) {
  for (int e = 0; e < 4; ++e) sum += a.element[e] * b.element[e];
  return sum;
}
__device__ inline void add_product(Pack<float>& sum, float weight, const Pack<float>& value) {
  for (int e = 0; e < 4; ++e) sum.element[e] += weight * value.element[e];
}
__device__ inline Pack<float> scaled(const Pack<float>& pack, float factor) {
  Pack<float> product = pack;
  for (float& element : product.element) element *= factor;
  return product;
}

/// Largest value of, and sum over, each group of `lanes` neighbouring lanes, in all of them.
template <int lanes> __device__ float largest_of(float value) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}
template <int lanes> __device__ float sum_of(float value) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

/// What a row's exponents are taken from. (-inf) - (-inf) is NaN where a row has seen no key: shift
/// by 0 instead, then exp(-inf) is the 0 that is meant.
__device__ inline float shift_of(float row_max) {
  return row_max == -score::infinity<float>() ? 0.0f : row_max;
}

/// The last step of a row: an empty one has sum 0 and gives 0.
__device__ inline float reciprocal_or_zero(float sum) { return sum == 0.0f ? 0.0f : 1.0f / sum; }

}  // namespace tilefold::cuda::ladder
