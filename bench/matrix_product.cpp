// One body, compiled for three instruction sets: 8 rows x 32 columns of the result stay in
// registers.
#include "bench/matrix_product.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tilefold::bench {

namespace {

using Vector = float __attribute__((vector_size(64)));
using Bits = std::int32_t __attribute__((vector_size(64)));
constexpr int vector = 16, tile_rows = 8, tile_vectors = 2;
constexpr int depth_block = 256;  // rows of b of one pass: 256 x 32 floats fill a first-level cache

// Inlined into functions that are compiled for wider vectors than this file.

enum class Start { zero, result };

[[gnu::always_inline]] inline void multiply_tile(Matrix c, ConstMatrix a, ConstMatrix b, int depth,
                                                 Start start) {
  Vector sum[tile_rows][tile_vectors] = {};
  if (start == Start::result)
    for (int r = 0; r < tile_rows; ++r) std::memcpy(sum[r], c.data + r * c.stride, sizeof sum[r]);
  for (int d = 0; d < depth; ++d) {
    Vector right[tile_vectors];
    std::memcpy(right, b.data + d * b.stride, sizeof right);
    for (int r = 0; r < tile_rows; ++r)
      for (int v = 0; v < tile_vectors; ++v) sum[r][v] += a.data[r * a.stride + d] * right[v];
  }
  for (int r = 0; r < tile_rows; ++r) std::memcpy(c.data + r * c.stride, sum[r], sizeof sum[r]);
}

[[gnu::always_inline]] inline void multiply_edge(Matrix c, ConstMatrix a, ConstMatrix b, int rows,
                                                 int depth, int columns, Start start) {
  for (int r = 0; r < rows; ++r) {
    float* out = c.data + r * c.stride;
    if (start == Start::zero) std::fill(out, out + columns, 0.0f);
    for (int d = 0; d < depth; ++d) {
      const float left = a.data[r * a.stride + d];
      const float* right = b.data + d * b.stride;
      for (int j = 0; j < columns; ++j) out[j] += left * right[j];
    }
  }
}

[[gnu::always_inline]] inline void multiply_all(Matrix c, ConstMatrix a, ConstMatrix b, int rows,
                                                int depth, int columns) {
  constexpr int wide = vector * tile_vectors;
  const int whole_rows = rows / tile_rows * tile_rows, whole = columns / wide * wide;
  for (int d = 0; d < depth || d == 0; d += depth_block) {
    const int part = std::min(depth_block, depth - d);
    const Start start = d == 0 ? Start::zero : Start::result;
    const auto at = [&](int r, int j) { return Matrix{c.data + r * c.stride + j, c.stride}; };
    const auto left = [&](int r) { return ConstMatrix{a.data + r * a.stride + d, a.stride}; };
    const auto right = [&](int j) { return ConstMatrix{b.data + d * b.stride + j, b.stride}; };
    for (int j = 0; j < whole; j += wide)
      for (int r = 0; r < whole_rows; r += tile_rows)
        multiply_tile(at(r, j), left(r), right(j), part, start);
    multiply_edge(at(0, whole), left(0), right(whole), rows, part, columns - whole, start);
    multiply_edge(at(whole_rows, 0), left(whole_rows), right(0), rows - whole_rows, part, whole,
                  start);
  }
}

// 2^n 2^r with |r| <= 1/2; the series of 2^r to the sixth power, relative error below 3e-7.
[[gnu::always_inline]] inline float exponentials_all(float* x, int count, float shift) {
  Vector sums = {};
  int i = 0;
  for (; i + vector <= count; i += vector) {
    Vector y;
    std::memcpy(&y, x + i, sizeof y);
    y = (y - shift) * 1.44269504f;
    y = y < -126.0f ? Vector{} - 126.0f : y;
    const Vector magic = Vector{} + 12582912.0f;  // 1.5 * 2^23: the sum's low bits are round(y)
    const Vector rounded = y + magic;
    const Vector r = y - (rounded - magic);
    Vector p = Vector{} + 1.5403530e-4f;
    p = p * r + 1.3333558e-3f;
    p = p * r + 9.6181291e-3f;
    p = p * r + 5.5504109e-2f;
    p = p * r + 2.4022651e-1f;
    p = p * r + 6.9314718e-1f;
    p = p * r + 1.0f;
    Bits bits, power;
    std::memcpy(&bits, &rounded, sizeof bits);
    std::memcpy(&power, &p, sizeof power);
    power += bits << 23;
    std::memcpy(&p, &power, sizeof p);
    p = y <= -126.0f ? Vector{} : p;
    sums += p;
    std::memcpy(x + i, &p, sizeof p);
  }
  float sum = 0;
  for (int l = 0; l < vector; ++l) sum += sums[l];
  for (; i < count; ++i) sum += x[i] = std::exp(x[i] - shift);
  return sum;
}

struct Functions {
  void (*multiply)(Matrix, ConstMatrix, ConstMatrix, int, int, int);
  float (*exponentials)(float*, int, float);
};

void multiply_plain(Matrix c, ConstMatrix a, ConstMatrix b, int rows, int depth, int columns) {
  multiply_all(c, a, b, rows, depth, columns);
}
float exponentials_plain(float* x, int count, float shift) {
  return exponentials_all(x, count, shift);
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void multiply_512(Matrix c, ConstMatrix a, ConstMatrix b,
                                                     int rows, int depth, int columns) {
  multiply_all(c, a, b, rows, depth, columns);
}
__attribute__((target("avx512f"))) float exponentials_512(float* x, int count, float shift) {
  return exponentials_all(x, count, shift);
}
__attribute__((target("avx2,fma"))) void multiply_256(Matrix c, ConstMatrix a, ConstMatrix b,
                                                      int rows, int depth, int columns) {
  multiply_all(c, a, b, rows, depth, columns);
}
__attribute__((target("avx2,fma"))) float exponentials_256(float* x, int count, float shift) {
  return exponentials_all(x, count, shift);
}
#endif

const Functions& functions() {
  static const Functions chosen = [] {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return Functions{multiply_512, exponentials_512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      return Functions{multiply_256, exponentials_256};
#endif
    return Functions{multiply_plain, exponentials_plain};
  }();
  return chosen;
}

}  // namespace

void multiply(Matrix c, ConstMatrix a, ConstMatrix b, int rows, int depth, int columns) {
  functions().multiply(c, a, b, rows, depth, columns);
}

float exponentials(float* x, int count, float shift) {
  return functions().exponentials(x, count, shift);
}

}  // namespace tilefold::bench
