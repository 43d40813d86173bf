// Kernels that scripts/kernel_budgets.py must refuse, for kernel_budgets_test.py: one that spills,
// one whose setmaxnreg ptxas ignores (C7508), one with registers of an unfinished wgmma touched.
__global__ void __launch_bounds__(1024) spills(float* x) {
  float held[96];  // of 64 registers
#pragma unroll
  for (int i = 0; i < 96; ++i) held[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i) x[(95 - i) * 1024 + threadIdx.x] = held[i] * held[(i * 7) % 96];
}

__global__ void no_cap_at_entry(float* x) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    x[threadIdx.x] = 0;
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    x[threadIdx.x] = 1;
  }
#endif
}

__global__ void touched_before_wait(float* x, unsigned long long a, unsigned long long b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  float d[4] = {x[0], x[1], x[2], x[3]};
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b));
  d[0] *= 2;
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  for (int i = 0; i < 4; ++i) x[i + threadIdx.x] = d[i];
#endif
}
