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

template <class T> TILEFOLD_HD constexpr T smaller(T a, T b) { return b < a ? b : a; }
template <class T> TILEFOLD_HD constexpr T larger(T a, T b) { return a < b ? b : a; }

/// Division that rounds towards minus infinity, and its remainder with the divisor's sign.
TILEFOLD_HD constexpr int floor_div(int a, int b) {
  const int q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
TILEFOLD_HD constexpr int floor_mod(int a, int b) { return a - b * floor_div(a, b); }

/// True of an element's answer, whatever type a reading gives it.
TILEFOLD_HD constexpr bool decided(bool answer) { return answer; }

}  // namespace tilefold::score
