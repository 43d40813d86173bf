// Which Highway targets the translation units of this folder are compiled for: the scalar baseline,
// SSE4, AVX2 and AVX3 (AVX-512 of Skylake) on x86-64, NEON on Arm. Each further target would cost
// its compile time without an instruction that these kernels use. Include before any Highway
// header.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
