// The one macro of the formula headers, and the mathematics they need, for every compiler that
// reads them: g++, clang, nvcc and NVRTC. No header of the standard library or of a toolkit is
// included.
#pragma once

#ifdef __CUDACC__
#define TILEFOLD_HD __host__ __device__ __forceinline__
#else
#define TILEFOLD_HD inline
#endif

// A host's function in a header that NVRTC reads, which takes none.
#ifdef __CUDACC_RTC__
#define TILEFOLD_HOST __device__
#else
#define TILEFOLD_HOST
#endif

namespace tilefold::score {

// NVRTC has none of g++'s __builtin_ functions, but declares C's own names; g++ and clang declare
// those only in <cmath>.
#ifdef __CUDACC__
TILEFOLD_HD float tanh(float x) { return ::tanhf(x); }
TILEFOLD_HD double tanh(double x) { return ::tanh(x); }
TILEFOLD_HD float exp(float x) { return ::expf(x); }
TILEFOLD_HD double exp(double x) { return ::exp(x); }
TILEFOLD_HD float log(float x) { return ::logf(x); }
TILEFOLD_HD double log(double x) { return ::log(x); }
TILEFOLD_HD float abs(float x) { return ::fabsf(x); }
TILEFOLD_HD double abs(double x) { return ::fabs(x); }
TILEFOLD_HD float floor(float x) { return ::floorf(x); }
TILEFOLD_HD double floor(double x) { return ::floor(x); }
#else
TILEFOLD_HD float tanh(float x) { return __builtin_tanhf(x); }
TILEFOLD_HD double tanh(double x) { return __builtin_tanh(x); }
TILEFOLD_HD float exp(float x) { return __builtin_expf(x); }
TILEFOLD_HD double exp(double x) { return __builtin_exp(x); }
TILEFOLD_HD float log(float x) { return __builtin_logf(x); }
TILEFOLD_HD double log(double x) { return __builtin_log(x); }
TILEFOLD_HD float abs(float x) { return __builtin_fabsf(x); }
TILEFOLD_HD double abs(double x) { return __builtin_fabs(x); }
TILEFOLD_HD float floor(float x) { return __builtin_floorf(x); }
TILEFOLD_HD double floor(double x) { return __builtin_floor(x); }
#endif
TILEFOLD_HD constexpr int abs(int x) { return x < 0 ? -x : x; }

/// Plus infinity, of float or double, for the scores of hidden keys.
template <class F> TILEFOLD_HD constexpr F infinity() {
  return F(__builtin_bit_cast(float, 0x7f800000u));
}

/// What lies at `from` and is not written while anything reads it. A kernel that reads it for each
/// element of a tile reads it once.
template <class T> TILEFOLD_HD T loaded(const T* from) {
#ifdef __CUDA_ARCH__
  return __ldg(from);
#else
  return *from;
#endif
}

/// a / b, where b is the same for all elements: on a GPU its reciprocal leaves the loop over them,
/// and the quotient is mended to what division gives. A |b| below 2^-126 counts as 0 there.
template <class F> TILEFOLD_HD constexpr F quotient(F a, F b) { return a / b; }
/// cap * tanh(x / cap), on a GPU to 2^-20 of cap in float32 and with two special functions.
template <class F> TILEFOLD_HD F soft_capped(F x, F cap) { return cap * tanh(x / cap); }
#ifdef __CUDACC__
TILEFOLD_HD float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  const float inverse = 1.0f / b, near = a * inverse, rest = ::fmaf(-near, b, a);
  const float mended = ::fmaf(rest, inverse, near);
  return mended == mended ? mended : near;  // where a or b is infinite there is no rest
#else
  return a / b;
#endif
}
TILEFOLD_HD float soft_capped(float x, float cap) {
#ifdef __CUDA_ARCH__
  // tanh(y) = 1 - 2 / (2^(2 y / ln 2) + 1).
  float power, part;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * (2.88539008f / cap)));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(part) : "f"(power + 1.0f));
  return cap * ::fmaf(-2.0f, part, 1.0f);
#else
  return cap * tanh(x / cap);
#endif
}
#endif

template <class T> TILEFOLD_HD constexpr T smaller(T a, T b) { return b < a ? b : a; }
template <class T> TILEFOLD_HD constexpr T larger(T a, T b) { return a < b ? b : a; }

/// Division that rounds towards minus infinity, and its remainder with the divisor's sign.
TILEFOLD_HD constexpr int floor_div(int a, int b) {
  const int q = a / b;
  return q - int(unsigned(a % b != 0) & unsigned((a < 0) != (b < 0)));  // no branch
}
TILEFOLD_HD constexpr int floor_mod(int a, int b) { return a - b * floor_div(a, b); }

/// True of an element's answer, whatever type a reading gives it.
TILEFOLD_HD constexpr bool decided(bool answer) { return answer; }

}  // namespace tilefold::score
