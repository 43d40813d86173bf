// The two matrix products of materialised attention, in float32, vectorised by the compiler.
#pragma once

#include <cstdint>

namespace tilefold::bench {

/// Row-major matrices; rows start `stride` elements apart.
struct ConstMatrix {
  const float* data;
  std::int64_t stride;
};
struct Matrix {
  float* data;
  std::int64_t stride;
};

/// c[rows, columns] = a[rows, depth] * b[depth, columns].
void multiply(Matrix c, ConstMatrix a, ConstMatrix b, int rows, int depth, int columns);

/// x[i] = exp(x[i] - shift); returns the sum.
float exponentials(float* x, int count, float shift);

}  // namespace tilefold::bench
