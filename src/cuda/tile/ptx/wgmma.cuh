// wgmma: a warpgroup's 64 x N x 16 product of 16-bit matrices with float32 sums, asynchronous (PTX
// ISA, asynchronous warpgroup level matrix instructions). sm_90a.
//
// The four warps of an aligned warpgroup execute these together. The shape follows from the sums: a
// thread holds N / 2 of them.
//   sum i of lane l, warp w:  row 16 w + l / 4 + 8 (i / 2 % 2), column 8 (i / 4) + 2 (l % 4) + i %
//   2 a, register r of step j:  the pair of 16-bit numbers at columns 16 j + 2 (l % 4) + 8 (r / 2)
//   + {0, 1}, row as above with r % 2
// so sums 8 j .. 8 j + 7, rounded in pairs, are the a of step j of the next product: P stays in
// registers.
//
// Order of calls: pin() what the products read and write in registers; wgmma_fence(); the products;
// wgmma_commit(); wgmma_wait<groups>(); pin() again. Between issue and wait nobody touches those
// registers: the compiler does not know that they are in use, which is what pin() is for.
#pragma once

#include "cuda/tile/half_type.hpp"
#include "cuda/tile/matrix_descriptor.cuh"

namespace tilefold::cuda::ptx {

/// Before the first product of a group whose registers ordinary instructions wrote.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Closes the group of products since the last commit.
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `pending` of the newest groups are unfinished.
template <int pending> __device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/// Holds registers at this point of the program: the compiler moves no use of them across it. No
/// instruction.
template <int count> __device__ __forceinline__ void pin(float (&numbers)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(numbers[i])::"memory");
}
template <int count> __device__ __forceinline__ void pin(unsigned (&pairs)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(pairs[i])::"memory");
}

/// The axis along which an operand's elements are neighbours in memory: that of the sum (k), or its
/// own (mn).
enum class Major : int { k = 0, mn = 1 };
/// sum = a b, or sum += a b.
enum class Sums : int { replace = 0, add = 1 };

// One overload of wgmma() a width: the sums are operands %0 to %(N/2 - 1), which PTX wants spelled
// out.
#define TILEFOLD_SUMS_8(i)                                                              \
  "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), \
      "+f"(sum[i + 5]), "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define TILEFOLD_IN_8 TILEFOLD_SUMS_8(0)
#define TILEFOLD_AS_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define TILEFOLD_IN_16 TILEFOLD_IN_8, TILEFOLD_SUMS_8(8)
#define TILEFOLD_AS_16 TILEFOLD_AS_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define TILEFOLD_IN_24 TILEFOLD_IN_16, TILEFOLD_SUMS_8(16)
#define TILEFOLD_AS_24 TILEFOLD_AS_16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define TILEFOLD_IN_32 TILEFOLD_IN_24, TILEFOLD_SUMS_8(24)
#define TILEFOLD_AS_32 TILEFOLD_AS_24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define TILEFOLD_IN_40 TILEFOLD_IN_32, TILEFOLD_SUMS_8(32)
#define TILEFOLD_AS_40 TILEFOLD_AS_32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define TILEFOLD_IN_48 TILEFOLD_IN_40, TILEFOLD_SUMS_8(40)
#define TILEFOLD_AS_48 TILEFOLD_AS_40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define TILEFOLD_IN_56 TILEFOLD_IN_48, TILEFOLD_SUMS_8(48)
#define TILEFOLD_AS_56 TILEFOLD_AS_48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define TILEFOLD_IN_64 TILEFOLD_IN_56, TILEFOLD_SUMS_8(56)
#define TILEFOLD_AS_64 TILEFOLD_AS_56 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define TILEFOLD_IN_72 TILEFOLD_IN_64, TILEFOLD_SUMS_8(64)
#define TILEFOLD_AS_72 TILEFOLD_AS_64 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define TILEFOLD_IN_80 TILEFOLD_IN_72, TILEFOLD_SUMS_8(72)
#define TILEFOLD_AS_80 TILEFOLD_AS_72 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define TILEFOLD_IN_88 TILEFOLD_IN_80, TILEFOLD_SUMS_8(80)
#define TILEFOLD_AS_88 TILEFOLD_AS_80 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define TILEFOLD_IN_96 TILEFOLD_IN_88, TILEFOLD_SUMS_8(88)
#define TILEFOLD_AS_96 TILEFOLD_AS_88 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define TILEFOLD_IN_104 TILEFOLD_IN_96, TILEFOLD_SUMS_8(96)
#define TILEFOLD_AS_104 TILEFOLD_AS_96 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define TILEFOLD_IN_112 TILEFOLD_IN_104, TILEFOLD_SUMS_8(104)
#define TILEFOLD_AS_112 TILEFOLD_AS_104 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define TILEFOLD_IN_120 TILEFOLD_IN_112, TILEFOLD_SUMS_8(112)
#define TILEFOLD_AS_120 TILEFOLD_AS_112 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define TILEFOLD_IN_128 TILEFOLD_IN_120, TILEFOLD_SUMS_8(120)
#define TILEFOLD_AS_128 TILEFOLD_AS_120 ",%120,%121,%122,%123,%124,%125,%126,%127"

// o0 to o6 number the operands behind the sums.
#define TILEFOLD_WGMMA_SHARED(TYPE, N, COUNT, o0, o1, o2, o3, o4)                                  \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #o2                                        \
               ", 0;\n"                                                                            \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE                     \
               " {" TILEFOLD_AS_##COUNT "}, %" #o0 ", %" #o1 ", add, 1, 1, %" #o3 ", %" #o4 ";\n}" \
               : TILEFOLD_IN_##COUNT                                                               \
               : "l"(a.bits), "l"(b.bits), "n"(int(sums)), "n"(int(major_a)), "n"(int(major_b)))
#define TILEFOLD_WGMMA_REGISTERS(TYPE, N, COUNT, o0, o1, o2, o3, o4, o5, o6)                 \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #o5                                  \
               ", 0;\n"                                                                      \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE               \
               " {" TILEFOLD_AS_##COUNT "}, {%" #o0 ", %" #o1 ", %" #o2 ", %" #o3 "}, %" #o4 \
                                        ", add, 1, 1, %" #o6 ";\n}"                          \
               : TILEFOLD_IN_##COUNT                                                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits), "n"(int(sums)),    \
                 "n"(int(major_b)))

/// Products of one element type; the sums' length chooses N = 2 * length, a multiple of 16 up to
/// 256.
template <HalfType type> struct Wgmma {
#define TILEFOLD_WGMMA(N, COUNT, o0, o1, o2, o3, o4, o5, o6)                            \
  /* a (64 x 16) and b (16 x N) from shared memory */                                   \
  template <Major major_a, Major major_b, Sums sums>                                    \
  static __device__ __forceinline__ void shared(float(&sum)[COUNT], MatrixDescriptor a, \
                                                MatrixDescriptor b) {                   \
    if constexpr (type == HalfType::bf16)                                               \
      TILEFOLD_WGMMA_SHARED("bf16", N, COUNT, o0, o1, o2, o3, o4);                      \
    else                                                                                \
      TILEFOLD_WGMMA_SHARED("f16", N, COUNT, o0, o1, o2, o3, o4);                       \
  }                                                                                     \
  /* a from registers, b from shared memory */                                          \
  template <Major major_b, Sums sums> static __device__ __forceinline__ void registers( \
      float(&sum)[COUNT], const unsigned(&a)[4], MatrixDescriptor b) {                  \
    if constexpr (type == HalfType::bf16)                                               \
      TILEFOLD_WGMMA_REGISTERS("bf16", N, COUNT, o0, o1, o2, o3, o4, o5, o6);           \
    else                                                                                \
      TILEFOLD_WGMMA_REGISTERS("f16", N, COUNT, o0, o1, o2, o3, o4, o5, o6);            \
  }
  TILEFOLD_WGMMA(16, 8, 8, 9, 10, 11, 12, 13, 14)
  TILEFOLD_WGMMA(32, 16, 16, 17, 18, 19, 20, 21, 22)
  TILEFOLD_WGMMA(48, 24, 24, 25, 26, 27, 28, 29, 30)
  TILEFOLD_WGMMA(64, 32, 32, 33, 34, 35, 36, 37, 38)
  TILEFOLD_WGMMA(80, 40, 40, 41, 42, 43, 44, 45, 46)
  TILEFOLD_WGMMA(96, 48, 48, 49, 50, 51, 52, 53, 54)
  TILEFOLD_WGMMA(112, 56, 56, 57, 58, 59, 60, 61, 62)
  TILEFOLD_WGMMA(128, 64, 64, 65, 66, 67, 68, 69, 70)
  TILEFOLD_WGMMA(144, 72, 72, 73, 74, 75, 76, 77, 78)
  TILEFOLD_WGMMA(160, 80, 80, 81, 82, 83, 84, 85, 86)
  TILEFOLD_WGMMA(176, 88, 88, 89, 90, 91, 92, 93, 94)
  TILEFOLD_WGMMA(192, 96, 96, 97, 98, 99, 100, 101, 102)
  TILEFOLD_WGMMA(208, 104, 104, 105, 106, 107, 108, 109, 110)
  TILEFOLD_WGMMA(224, 112, 112, 113, 114, 115, 116, 117, 118)
  TILEFOLD_WGMMA(240, 120, 120, 121, 122, 123, 124, 125, 126)
  TILEFOLD_WGMMA(256, 128, 128, 129, 130, 131, 132, 133, 134)
#undef TILEFOLD_WGMMA
};

#undef TILEFOLD_WGMMA_REGISTERS
#undef TILEFOLD_WGMMA_SHARED
#undef TILEFOLD_SUMS_8
#undef TILEFOLD_IN_8
#undef TILEFOLD_AS_8
#undef TILEFOLD_IN_16
#undef TILEFOLD_AS_16
#undef TILEFOLD_IN_24
#undef TILEFOLD_AS_24
#undef TILEFOLD_IN_32
#undef TILEFOLD_AS_32
#undef TILEFOLD_IN_40
#undef TILEFOLD_AS_40
#undef TILEFOLD_IN_48
#undef TILEFOLD_AS_48
#undef TILEFOLD_IN_56
#undef TILEFOLD_AS_56
#undef TILEFOLD_IN_64
#undef TILEFOLD_AS_64
#undef TILEFOLD_IN_72
#undef TILEFOLD_AS_72
#undef TILEFOLD_IN_80
#undef TILEFOLD_AS_80
#undef TILEFOLD_IN_88
#undef TILEFOLD_AS_88
#undef TILEFOLD_IN_96
#undef TILEFOLD_AS_96
#undef TILEFOLD_IN_104
#undef TILEFOLD_AS_104
#undef TILEFOLD_IN_112
#undef TILEFOLD_AS_112
#undef TILEFOLD_IN_120
#undef TILEFOLD_AS_120
#undef TILEFOLD_IN_128
#undef TILEFOLD_AS_128

}  // namespace tilefold::cuda::ptx
