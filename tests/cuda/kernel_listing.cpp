// Prints every kernel that the build compiles, one a line, fields apart by tabs:
//
//   family   name as `tilefold kernels` prints it   dynamic shared bytes   the __global__ function
//
// scripts/kernel_budgets.py finds what ptxas reports by the last field. Dynamic shared memory of
// the plain-load kernels is that of head dimension 256.
#define __forceinline__ inline
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#include "cuda/ladder/block_on_host.hpp"
// Words of kernels that are read here and not run.
inline unsigned long __cvta_generic_to_shared(const void*) { return 0; }
inline int __shfl_sync(unsigned, int value, int) { return value; }
// After the words that it defines:
#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "cuda/kernels/any/config.hpp"
#include "cuda/kernels/ladder/half.cuh"
#include "cuda/kernels/ladder/naive.cuh"
#include "cuda/kernels/ladder/sm90_minimal.cuh"
#include "cuda/kernels/ladder/tile.cuh"
#include "cuda/kernels/ladder/v1.cuh"
#include "cuda/kernels/ladder/v2.cuh"
#include "cuda/kernels/sm80/registry.hpp"
#include "cuda/kernels/sm90/forward/registry.hpp"
#include "cuda/launch/forward_kernel.hpp"
#include "cuda/launch/ladder/sm80_unswizzled.hpp"

namespace tilefold::cuda {

namespace {

template <class T> std::string type_name() {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, nullptr), std::free);
  return text.get();
}

void print(const char* family, const std::string& name, std::size_t shared_bytes,
           const std::string& function) {
  std::printf("%s\t%s\t%zu\ttilefold::cuda::%s\n", family, name.c_str(), shared_bytes,
              function.c_str());
}

/// One instance of a family's __global__ template over its Choice.
template <class Choice> void print_forward(const char* family, const char* function,
                                           const ForwardKernel& kernel, int head_dim,
                                           int value_dim) {
  print(family, kernel.candidate.name, std::size_t(kernel.shared_bytes(head_dim, value_dim)),
        std::string(function) + "<" + type_name<Choice>() + ">");
}

template <int... index> void print_sm80(std::integer_sequence<int, index...>) {
  (print_forward<sm80::Choice<sm80::registry(index)>>(
       "sm80", "sm80::forward_kernel", sm80_kernels()[std::size_t(index)],
       sm80::registry(index).head_dim, sm80::registry(index).value_dim),
   ...);
}

template <int... index> void print_sm90(std::integer_sequence<int, index...>) {
  (print_forward<sm90::Choice<sm90::registry(index)>>(
       "sm90", "sm90::forward_kernel", sm90_kernels()[std::size_t(index)],
       sm90::registry(index).head_dim, sm90::registry(index).value_dim),
   ...);
}

void print_any() {
  using Rows16 = any::Choice<any::ForwardConfig{16}>;
  using Rows8 = any::Choice<any::ForwardConfig{8}>;
  print_forward<Rows16>("any", "any::forward", any_kernels()[0], 256, 256);
  print_forward<Rows8>("any", "any::forward", any_kernels()[1], 256, 256);
  print_forward<Rows16>("any", "any::interpreted_forward", any_kernels()[2], 256, 256);
  print_forward<Rows8>("any", "any::interpreted_forward", any_kernels()[3], 256, 256);
}

// Of the kernels before and after every forward.
void print_steps() {
  for (const char* name :
       {"merge_parts", "clear_rows", "read_lengths", "any::read_lengths_interpreted", "pad_rows",
        "build_cells<int>", "build_cells<float>"})
    print("steps", name, 0, name);
}

template <class T, ladder::half::Accumulate accumulate, int head_dim>
void print_half(const std::string& rung) {
  print("ladder", rung + " d" + std::to_string(head_dim), sizeof(ladder::half::Plan<T, head_dim>),
        "ladder::half::forward<" + type_name<T>() + "," + std::to_string(head_dim) + ",(" +
            type_name<ladder::half::Accumulate>() + ")" + std::to_string(int(accumulate)) + ">");
}

template <HalfType type, int head_dim> void print_sm90_minimal(const std::string& rung) {
  const std::string dim = std::to_string(head_dim);
  print("ladder", rung + " d" + dim, sizeof(ladder::sm90_minimal::Plan<head_dim>),
        "ladder::sm90_minimal::forward<(" + type_name<HalfType>() + ")" +
            std::to_string(int(type)) + "," + dim + ">");
}

template <int head_dim> void print_ladder() {
  using ladder::half::Accumulate;
  const std::string dim = std::to_string(head_dim);
  const auto rung = [&](const std::string& name, std::size_t shared_bytes,
                        const std::string& function) {
    print("ladder", name + " d" + dim, shared_bytes, "ladder::" + function + "<" + dim + ">");
  };
  rung("naive scores", sizeof(ladder::naive::ScorePlan<head_dim>), "naive::scores");
  rung("naive probabilities", 0, "naive::probabilities");
  rung("naive weighted_sum", sizeof(ladder::naive::SumPlan<head_dim>), "naive::weighted_sum");
  rung("v1", sizeof(ladder::v1::Plan<head_dim>), "v1::forward");
  rung("tile", sizeof(ladder::tile::Plan<head_dim>), "tile::forward");
  rung("v2", sizeof(ladder::v2::Plan<head_dim>), "v2::forward");
  print_half<ladder::half::Float16, Accumulate::float32, head_dim>("half_f16");
  print_half<ladder::half::Bfloat16, Accumulate::float32, head_dim>("half_bf16");
  print_half<ladder::half::Float16, Accumulate::float16, head_dim>("half_f16_sums");
  using PlainRows = sm80::Choice<ladder::unswizzled(head_dim)>;
  print("ladder", "sm80_f16_plain_rows d" + dim, std::size_t(PlainRows::value.shared_bytes()),
        "sm80::forward_kernel<" + type_name<PlainRows>() + ">");
  print_sm90_minimal<HalfType::f16, head_dim>("sm90_minimal_f16");
  print_sm90_minimal<HalfType::bf16, head_dim>("sm90_minimal_bf16");
}

}  // namespace

}  // namespace tilefold::cuda

int main() {
  using namespace tilefold::cuda;
  print_sm80(std::make_integer_sequence<int, sm80::registry_size>{});
  print_sm90(std::make_integer_sequence<int, sm90::registry_size>{});
  print_any();
  print_steps();
  print_ladder<64>();
  print_ladder<128>();
}
