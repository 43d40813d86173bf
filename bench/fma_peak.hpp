// What the cores' multipliers can do at best, measured where the benchmark runs.
#pragma once

namespace tilefold::bench {

struct Peaks {
  double f32_fma = 0;        // FLOP/s of vector multiply-adds on `threads` threads
  double bf16_dot = 0;       // of bf16 dot products (AVX512-BF16); 0 where there are none
  const char* vectors = "";  // "512-bit", ...
};

/// Runs each kind of instruction from registers alone, and takes the best of several bursts: a
/// shared machine only ever slows a burst.
Peaks measure_peaks(int threads);

}  // namespace tilefold::bench
