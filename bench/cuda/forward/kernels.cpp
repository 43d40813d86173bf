#include "bench/cuda/forward/kernels.hpp"

#include <utility>

#include "bench/cuda/sm80_candidates.hpp"
#include "cuda/kernels/sm80/functions.hpp"
#include "cuda/kernels/sm80/registry.hpp"

namespace tilefold::bench::forward {

namespace {

using cuda::sm80::ForwardConfig;

std::string name_of(const ForwardConfig& c) {
  std::string name = "d" + std::to_string(c.head_dim);
  if (c.value_dim != c.head_dim) name += "-" + std::to_string(c.value_dim);
  name += "_" + std::to_string(c.tile_rows()) + "x" + std::to_string(c.tile_keys);
  name += "_w" + std::to_string(c.warps) + "_s" + std::to_string(c.stages);
  name += c.query == cuda::sm80::QueryHome::registers ? "_Qreg" : "_Qsmem";
  name += "_b" + std::to_string(c.blocks_per_sm);
  if (c.type == cuda::HalfType::f16) name += "_f16";
  if (c.formula == cuda::sm80::Formula::changed) name += "_formula";
  if (c.shares_rows()) name += "_columns";
  return name;
}

template <int... index>
void add_registry(std::vector<Kernel>& all, std::integer_sequence<int, index...>) {
  (all.push_back({name_of(cuda::sm80::registry(index)) + "*", cuda::sm80::registry(index),
                  cuda::sm80::forward_function<index>()}),
   ...);
}

template <int... index>
void add_candidates(std::vector<Kernel>& all, std::integer_sequence<int, index...>) {
  (all.push_back(
       {name_of(sm80_candidate(index)), sm80_candidate(index), sm80_candidate_function<index>()}),
   ...);
}

}  // namespace

std::vector<Kernel> kernels() {
  std::vector<Kernel> all;
  add_registry(all, std::make_integer_sequence<int, cuda::sm80::registry_size>{});
  add_candidates(all, std::make_integer_sequence<int, sm80_candidate_count>{});
  return all;
}

}  // namespace tilefold::bench::forward
