#include "cuda/jit/forward_layout.hpp"

#include "cuda/kernels/sm90/forward/registry.hpp"
#include "cuda/kernels/sm90/forward/shared_plan.cuh"

namespace tilefold::cuda::jit {

namespace {

/// Any formula of this alignment.
template <std::size_t alignment> struct StandIn { alignas(alignment) unsigned char bytes[16]; };

template <class Params, class Member> std::size_t offset_of(Member Params::*member) {
  const Params params{};
  return std::size_t(reinterpret_cast<const char*>(&(params.*member)) -
                     reinterpret_cast<const char*>(&params));
}

template <std::size_t alignment> std::size_t formula_at(std::size_t wanted) {
  if constexpr (alignment < most_alignment)
    if (wanted > alignment) return formula_at<2 * alignment>(wanted);
  return offset_of(&sm90::CompiledParams<StandIn<alignment>>::formula);
}

template <HalfType type, int shape> int shared_bytes(int wanted) {
  if constexpr (shape + 1 < sm90::shapes)
    if (wanted > shape) return shared_bytes<type, shape + 1>(wanted);
  constexpr sm90::ForwardConfig config =
      sm90::config_of(type, sm90::Formula::compiled, sm90::compiled_tiles[shape]);
  return sm90::SharedPlan<sm90::CompiledChoice<config, StandIn<1>>>::bytes;
}

}  // namespace

ForwardLayout forward_layout(HalfType type, int shape, std::size_t alignment) {
  return {type == HalfType::bf16 ? shared_bytes<HalfType::bf16, 0>(shape)
                                 : shared_bytes<HalfType::f16, 0>(shape),
          offset_of(&sm90::CompiledParams<StandIn<1>>::first_keys), formula_at<1>(alignment)};
}

}  // namespace tilefold::cuda::jit
