// The measure of compile times: scripts/record_compile.py compiles it now and then beside the units
// of a build, so that their CPU seconds can be told in those of one machine
// (scripts/compile_clock.py). It does nothing of use. It has what a unit here has, many registers
// in unrolled loops over code that branches, and includes nothing. Who changes it changes every
// limit: measure its seconds anew.
template <int blocks, int groups> struct Tile {
  float at[blocks][groups][4];

  template <class Change> __device__ __forceinline__ void each(const Change& change) {
#pragma unroll
    for (int b = 0; b < blocks; ++b)
#pragma unroll
      for (int g = 0; g < groups; ++g)
#pragma unroll
        for (int e = 0; e < 4; ++e) change(at[b][g][e], b, g * 4 + e);
  }
};

struct Step {
  int kind;
  float cap;
  const float* data;
};

template <int blocks, int groups>
__device__ __forceinline__ void product(Tile<blocks, groups>& sums, const unsigned* left,
                                        const unsigned* right) {
#pragma unroll
  for (int g = 0; g < groups; ++g) {
#pragma unroll
    for (int b = 0; b < blocks; ++b) {
      float(&d)[4] = sums.at[b][g];
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
          "{%8,%9}, {%0,%1,%2,%3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(left[4 * b]), "r"(left[4 * b + 1]), "r"(left[4 * b + 2]), "r"(left[4 * b + 3]),
            "r"(right[2 * g]), "r"(right[2 * g + 1]));
    }
  }
}

template <int groups> __global__ void __launch_bounds__(128)
    reference(const Step* steps, int count, const unsigned* operands, float* out) {
  __shared__ unsigned staged[4096];
  Tile<2, groups> sums{}, scores{};
  const int thread = int(threadIdx.x);
  for (int turn = 0; turn < count; ++turn) {
    staged[turn % 32 * 128 + thread] = operands[turn * 128 + thread];
    __syncthreads();
    product(scores, staged + thread % 32, staged + 64 + thread % 32);
    for (int s = 0; s < count; ++s) {
      const Step step = steps[s];
      if (step.kind == 0)
        scores.each([&](float& x, int, int) { x = step.cap * tanhf(x / step.cap); });
      else if (step.kind == 1)
        scores.each([&](float& x, int b, int i) { x += step.data[b * 64 + i * thread]; });
      else
        scores.each([&](float& x, int b, int i) { x = i + b < thread ? x : step.cap; });
    }
    scores.each([&](float& x, int b, int i) { sums.at[b][i / 4][i % 4] += exp2f(x); });
    product(sums, staged + 512 + thread % 32, staged + 1024 + thread % 32);
    __syncthreads();
  }
  sums.each([&](float& x, int b, int i) { out[(b * 64 + i) * 128 + thread] = x; });
}

template __global__ void reference<8>(const Step*, int, const unsigned*, float*);
template __global__ void reference<12>(const Step*, int, const unsigned*, float*);
template __global__ void reference<16>(const Step*, int, const unsigned*, float*);
