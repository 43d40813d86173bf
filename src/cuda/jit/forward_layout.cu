#include "cuda/jit/forward_layout.hpp"

#include "cuda/kernels/sm80/compiled.cuh"
#include "cuda/kernels/sm80/registry.hpp"
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

template <template <class> class Params, std::size_t alignment = 1>
std::size_t formula_at(std::size_t wanted) {
  if constexpr (alignment < most_alignment)
    if (wanted > alignment) return formula_at<Params, 2 * alignment>(wanted);
  return offset_of(&Params<StandIn<alignment>>::formula);
}

template <HalfType type, int shape> int shared_bytes(int wanted) {
  if constexpr (shape + 1 < sm90::compiled_shapes)
    if (wanted > shape) return shared_bytes<type, shape + 1>(wanted);
  constexpr sm90::ForwardConfig config =
      sm90::config_of(type, sm90::Formula::compiled, sm90::compiled_tiles[shape]);
  return sm90::SharedPlan<sm90::CompiledChoice<config, StandIn<1>>>::bytes;
}

}  // namespace

ForwardLayout forward_layout(const ForwardShape& shape, std::size_t alignment) {
  if (shape.family == Family::sm80)
    return {sm80::config_of(shape.type, sm80::Formula::compiled, sm80::changed_tiles[shape.row])
                .shared_bytes(),
            0, formula_at<sm80::CompiledParams>(alignment)};
  return {shape.type == HalfType::bf16 ? shared_bytes<HalfType::bf16, 0>(shape.row)
                                       : shared_bytes<HalfType::f16, 0>(shape.row),
          offset_of(&sm90::CompiledParams<StandIn<1>>::first_keys),
          formula_at<sm90::CompiledParams>(alignment)};
}

}  // namespace tilefold::cuda::jit
