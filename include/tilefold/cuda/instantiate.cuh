// Formulas of your own on a GPU, compiled ahead of time: include this in one .cu file, name the
// functors, and every plan whose formula has these types may run on the kernel.
//
//   struct Relative {                                            // a score change, float32
//     tilefold::score::Table table;                              // [query heads, 2 * reach + 1]
//     template <class S, class N> TILEFOLD_HD S change(S s, N q, N k, tilefold::score::Place at)
//         const { return s + S(table.at(at.query_head, k - (q + N(at.offset)) + N(reach))); }
//     template <class Visit> void side_tensors(const Visit& visit) { visit(table); }
//   };
//   TILEFOLD_INSTANTIATE_FORWARD(relative, tilefold::score::Causal, Relative, bf16, 128);
//
//   options.mask = tilefold::mask(tilefold::score::Causal{});    // the same types in the program
//   options.score = tilefold::change(Relative{table});
//
// Compile for sm_90a with the package's target tilefold::kernels. Masks are joined in the type,
// `score::And<score::Causal, Mine>`; score::Everything and score::Unchanged stand for none.
//
// The functors' parameters are data: side tensors that side_tensors() lists are copied to the
// device by prepare(); other pointers must be the device's own. Compiled kernels take dense and
// ragged keys, grouped heads, splits, LSE and partial output; positions one apart; no softcap,
// ALiBi or bias beside the formula. The mask is asked about 128 x 128 tiles by intervals first.
// Values (V) of a key that lies between keys of the same 128 that some query sees must be finite,
// though the mask hides it from all.
#pragma once

#include <cstring>

#include "cuda/kernels/sm90/forward/kernel.cuh"
#include "cuda/kernels/sm90/forward/registry.hpp"
#include "tilefold/cuda/compiled.hpp"

namespace tilefold::cuda {

template <class M, class C, HalfType type, int shape> struct ForwardInstance {
  using Compiled = CompiledFormula<M, C>;
  using Chosen = sm90::CompiledChoice<
      sm90::config_of(type, sm90::Formula::compiled, sm90::compiled_tiles[shape]), Compiled>;
  using Params = sm90::ParamsOf<Chosen>;
  static_assert(__is_trivially_copyable(Compiled), "a functor on a device is its bytes");
  static_assert(sizeof(Params) <= CompiledForward::most_params_bytes,
                "a kernel's parameters end at 4 KB: large data belongs into side tensors");

  explicit ForwardInstance(const char* name) {
    register_forward({name, &typeid(M), &typeid(C),
                      type == HalfType::bf16 ? DType::bf16 : DType::f16, shape,
                      reinterpret_cast<const void*>(sm90::forward_kernel<Chosen>),
                      sm90::SharedPlan<Chosen>::bytes, offset_of(&Params::first_keys),
                      offset_of(&Params::formula), sizeof(Compiled), write});
  }
  template <class Member> static std::size_t offset_of(Member Params::*member) {
    const Params params{};
    return std::size_t(reinterpret_cast<const char*>(&(params.*member)) -
                       reinterpret_cast<const char*>(&params));
  }
  static void write(void* formula, const void* mask, const void* change,
                    const SideTensors& tensors) {
    Compiled copy{mask == nullptr ? M{} : *static_cast<const M*>(mask),
                  change == nullptr ? C{} : *static_cast<const C*>(change)};
    score::visit_side_tensors(copy.mask, tensors);
    score::visit_side_tensors(copy.change, tensors);
    std::memcpy(formula, &copy, sizeof copy);
  }
};

/// Row of the table of tiles that holds these head dimensions exactly.
constexpr int forward_shape(int head_dim, int value_dim) {
  for (int i = 0; i < sm90::shapes; ++i)
    if (sm90::compiled_tiles[i].head_dim == head_dim &&
        sm90::compiled_tiles[i].value_dim == value_dim)
      return i;
  return -1;
}

}  // namespace tilefold::cuda

/// `name`: an identifier. `type`: bf16 or f16. `head_dim`: 64, 96, 128, 192 or 256; smaller heads,
/// multiples of 8, run in the next larger one.
#define TILEFOLD_INSTANTIATE_FORWARD(name, mask, change, type, head_dim)                          \
  static_assert(tilefold::cuda::forward_shape(head_dim, head_dim) >= 0, "no tile of this head");  \
  static const tilefold::cuda::ForwardInstance<mask, change, tilefold::cuda::HalfType::type,      \
                                               tilefold::cuda::forward_shape(head_dim, head_dim)> \
      tilefold_forward_##name##_##type##_##head_dim(#name)
