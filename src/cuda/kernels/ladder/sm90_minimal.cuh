// Rung 7, sm90_minimal: the chapter's skeleton of producer and consumers, made right. Hopper only.
//
//   producer, one thread:     wait until a stage is empty; ask TMA for a tile of K and of V
//   two consumer warpgroups:  wait until it is full; S = Q K^T; online softmax; O += P V; give back
//
// Grid: heads * query tiles of 128 rows. Block: 3 warpgroups; the first loads, the others compute
// 64 rows each. Pipeline: a ring of 2 stages; TMA completes the `full` barriers, the consumers' 8
// warps the `empty` ones. Shared memory: 80 KB at D = 64, 160 KB at D = 128.
#pragma once

#include "cuda/kernels/ladder/rows.cuh"
#include "cuda/tile/ptx/cp_async_bulk_tensor.cuh"
#include "cuda/tile/ptx/ldmatrix.cuh"
#include "cuda/tile/ptx/mma.cuh"
#include "cuda/tile/ptx/setmaxnreg.cuh"
#include "cuda/tile/ptx/wgmma.cuh"
#include "cuda/tile/ring.cuh"

namespace tilefold::cuda::ladder::sm90_minimal {

using ptx::shared_address;
constexpr int consumers = 2, warpgroup_rows = 64, rows = consumers * warpgroup_rows;
constexpr int keys = 128, stages = 2, threads = 128 * (consumers + 1);

/// Tiles as TMA writes them: [group of 64 columns][row][64], swizzled.
template <int head_dim> struct Plan {
  alignas(1024) unsigned short queries[rows * head_dim];
  alignas(1024) unsigned short keys_tile[stages][keys * head_dim];
  alignas(1024) unsigned short values_tile[stages][keys * head_dim];
  alignas(8) unsigned char query_full[ptx::mbarrier_bytes], ring[Ring<stages>::bytes];
};

struct Maps {
  TensorMap query, key, value;  // boxes of 128 rows of a whole head
};
/// Key tiles that the last row of a query tile sees.
__device__ inline int key_tiles(const Shape& shape, const QueryTile& block) {
  const int last_row = score::smaller(block.first_query + rows, shape.query_length) - 1;
  return tiles_over(shape.keys_seen(last_row), keys);
}

template <int head_dim> __device__ void produce(Plan<head_dim>& plan, const Maps& map,
                                                const Shape& shape, const QueryTile& block) {
  const int head = block.head_index % shape.heads, batch = block.head_index / shape.heads;
  const unsigned long long once = ptx::l2_evict_first(), kept = ptx::l2_evict_last();
  const unsigned query_full = shared_address(plan.query_full);
  ptx::mbarrier_arrive_expect_tx(query_full, rows * head_dim * 2);
  ptx::load_box(shared_address(plan.queries), &map.query, query_full,
                {0, block.first_query, 0, head, batch}, once);
  const Ring<stages> ring{shared_address(plan.ring)};
  RingPosition<stages> at;
  for (int tile = 0; tile < key_tiles(shape, block); ++tile) {
    const int from[] = {0, tile * keys, 0, head, batch};
    ring.wait_empty(at);
    ring.expect(at, 2 * keys * head_dim * 2);  // K and V
    ptx::load_box(shared_address(plan.keys_tile[at.stage]), &map.key, ring.full(at), from, kept);
    ptx::load_box(shared_address(plan.values_tile[at.stage]), &map.value, ring.full(at), from,
                  kept);
    at.advance();
  }
}

/// 64 query rows in the registers of one warpgroup. A thread holds rows first_row + 8 r, r = 0, 1;
/// element i of its sums is of r = i / 2 % 2 and column 8 (i / 4) + 2 (lane % 4) + i % 2.
template <HalfType type, int head_dim> struct Consumer {
  Plan<head_dim>& plan;
  const Shape& shape;
  const QueryTile& block;
  int first_query;  // of the warpgroup
  int lane = int(threadIdx.x) % 32;
  int first_row = first_query + int(threadIdx.x) / 32 % 4 * 16 + lane / 4;
  float scores[keys / 2];
  unsigned weights[keys / 16][4];  // P, rounded: operand a of each 16 keys
  float out[head_dim / 2] = {};
  float max[2] = {-score::infinity<float>(), -score::infinity<float>()}, sum[2] = {};
  using Wgmma = ptx::Wgmma<type>;
  static constexpr ptx::Major k = ptx::Major::k, mn = ptx::Major::mn;

  __device__ void run(unsigned short* result) {
    ptx::mbarrier_wait(shared_address(plan.query_full), 0);
    const Ring<stages> ring{shared_address(plan.ring)};
    RingPosition<stages> at;
    for (int tile = 0; tile < key_tiles(shape, block); ++tile) {
      ring.wait_full(at);
      query_key(at.stage);
      hide(tile * keys);
      weigh();
      weights_value(at.stage);
      if (lane == 0) ring.release(at);
      at.advance();
    }
    write(result);
  }

  /// Divides, once, and rounds, once, and writes the rows that exist.
  __device__ void write(unsigned short* result) {
    for (int r = 0; r < 2; ++r) {
      const float normaliser = reciprocal_or_zero(sum_of<4>(sum[r]));
      const int query = first_row + 8 * r;
      if (query >= shape.query_length) continue;
      unsigned short* const row = result + shape.head_offset(block.head_index, shape.query_length) +
                                  query * shape.row_stride() + 2 * (lane % 4);
      for (int g = 0; g < head_dim / 8; ++g)
        *reinterpret_cast<unsigned*>(row + 8 * g) =
            ptx::pack<type>(out[4 * g + 2 * r] * normaliser, out[4 * g + 2 * r + 1] * normaliser);
    }
  }

  /// S = Q K^T, 16 columns an instruction.
  __device__ void query_key(unsigned stage) {
    const int row = first_query - block.first_query;  // 128 bytes a row
    const auto query = MatrixDescriptor::k_major(shared_address(plan.queries + 64 * row));
    const auto key = MatrixDescriptor::k_major(shared_address(plan.keys_tile[stage]));
    ptx::pin(scores);
    ptx::wgmma_fence();
    Wgmma::template shared<k, k, ptx::Sums::replace>(scores, query, key);
#pragma unroll
    for (int step = 1; step < head_dim / 16; ++step)
      Wgmma::template shared<k, k, ptx::Sums::add>(scores, query.at_columns(step, rows),
                                                   key.at_columns(step, keys));
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::pin(scores);
  }

  /// Only on tiles that some row of the warpgroup does not see to the end.
  __device__ void hide(int first_key) {
    if (first_key + keys <= shape.keys_seen(first_query)) return;
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
      const int seen = shape.keys_seen(first_row + i / 2 % 2 * 8) - first_key - 2 * (lane % 4);
      if (8 * (i / 4) + i % 2 >= seen) scores[i] = -score::infinity<float>();
    }
  }

  /// Online softmax: new maxima, O and the thread's share of the sums rescaled, S becomes P.
  __device__ void weigh() {
    float shift[2], rescale[2], factor = shape.scale * 1.44269504f;  // exp2: in units of log2
    for (int r = 0; r < 2; ++r) {
      float largest = max[r];
#pragma unroll
      for (int i = 2 * r; i < keys / 2; i += 4)
        largest = fmaxf(largest, fmaxf(scores[i], scores[i + 1]));
      largest = largest_of<4>(largest);
      shift[r] = shift_of(largest);
      rescale[r] = ptx::exp2((max[r] - shift[r]) * factor);
      max[r] = largest;
      sum[r] *= rescale[r];
    }
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
      scores[i] = ptx::exp2((scores[i] - shift[i / 2 % 2]) * factor);
      sum[i / 2 % 2] += scores[i];
      if (i % 2 == 1) weights[i / 8][i % 8 / 2] = ptx::pack<type>(scores[i - 1], scores[i]);
    }
#pragma unroll
    for (int i = 0; i < head_dim / 2; ++i) out[i] *= rescale[i / 2 % 2];
  }

  /// O += P V, 16 keys an instruction; P comes from registers.
  __device__ void weights_value(unsigned stage) {
    const auto value = MatrixDescriptor::mn_major(shared_address(plan.values_tile[stage]), keys);
    ptx::pin(out);
    for (auto& step : weights) ptx::pin(step);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < keys / 16; ++step)
      Wgmma::template registers<mn, ptx::Sums::add>(out, weights[step], value.at_rows(step));
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::pin(out);
  }
};

template <HalfType type, int head_dim> __global__ void __launch_bounds__(threads, 1)
    forward(const __grid_constant__ Maps maps, unsigned short* out,
            const __grid_constant__ Shape shape) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  auto& plan = *reinterpret_cast<Plan<head_dim>*>(shared_bytes);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(shared_address(plan.query_full), 1);
    Ring<stages>{shared_address(plan.ring)}.init(4 * consumers);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const QueryTile block = query_tile(blockIdx.x, tiles_over(shape.query_length, rows), rows);
  const int warpgroup = __shfl_sync(0xffffffffu, int(threadIdx.x) / 128, 0);  // one for the warp
  static_assert(ptx::registers_fit(40, 232, consumers));
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<40>();
    if (threadIdx.x == 0) produce(plan, maps, shape, block);
  } else {
    ptx::setmaxnreg_inc<232>();
    const int first_query = block.first_query + (warpgroup - 1) * warpgroup_rows;
    Consumer<type, head_dim>{plan, shape, block, first_query}.run(out);
  }
}

}  // namespace tilefold::cuda::ladder::sm90_minimal
