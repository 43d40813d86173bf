// Attention forward for Hopper (sm_90a): TMA, wgmma, roles by warp.
//
// Grid: persistent, one block a multiprocessor; blocks take items of work until there are none.
// Warpgroup 0: warp 0 loads (loader.cuh), warp 1 scouts (scout.cuh), warps 2 and 3 copy Q where TMA
// cannot (query_rows.cuh); its registers go to the consumers. Warpgroups 1 and up compute 64 query
// rows each (consumer.cuh). Pipeline: `stages` tiles of K and of V, `query_stages` of Q, 2 or 3
// assignments.
#pragma once

#include "cuda/kernels/sm90/forward/consumer.cuh"
#include "cuda/kernels/sm90/forward/loader.cuh"
#include "cuda/kernels/sm90/forward/query_rows.cuh"
#include "cuda/kernels/sm90/forward/scout.cuh"
#include "cuda/tile/ptx/address.cuh"

namespace tilefold::cuda::sm90 {

template <class Chosen> __global__ void __launch_bounds__(Chosen::value.threads(), 1)
    forward_kernel(const __grid_constant__ ParamsOf<Chosen> params) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  constexpr ForwardConfig config = Chosen::value;
  const SharedPlan<Chosen> plan{shared, ptx::shared_address(shared)};
  if (threadIdx.x == 0) {
    if (params.query_path == QueryPath::box) ptx::prefetch_tensormap(&params.query);
    ptx::prefetch_tensormap(&params.key);
    ptx::prefetch_tensormap(&params.value);
    plan.init(params.query_path);
  }
  __syncthreads();
  // Uniform in the warp, and known to be: the descriptors of the products go to uniform registers.
  const int warpgroup = __shfl_sync(0xffffffffu, int(threadIdx.x / 128), 0);
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<config.producer_registers()>();
    if (threadIdx.x == 0) Loader<Chosen>(params, plan).run();
    if (threadIdx.x / 32 == 1) Scout<Chosen>(params, plan).run();
    if constexpr (config.formula != Formula::compiled)  // whose rows are one head's
      if (threadIdx.x / 32 >= 2 && params.query_path == QueryPath::rows)
        QueryRows<Chosen>(params, plan, int(threadIdx.x / 32) - 2).run();
  } else {
    ptx::setmaxnreg_inc<config.consumer_registers()>();
    Consumer<Chosen>(params, plan, warpgroup - 1).run();
  }
#endif
}

}  // namespace tilefold::cuda::sm90
