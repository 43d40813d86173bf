// The table of the plain-load kernels.
#include <cstring>

#include "cuda/kernels/any/config.hpp"
#include "cuda/kernels/any/programs.hpp"
#include "cuda/launch/device_functions.hpp"
#include "cuda/launch/forward_kernel.hpp"
#include "cuda/launch/kernel_costs.hpp"
#include "cuda/runtime/launch.hpp"

namespace tilefold::cuda {

namespace {

// What every card from 8.0 on gives a block: 99 KB on 8.6 and 8.9.
constexpr int shared_limit = 99 * 1024;

template <int rows> int shared_bytes(int head_dim, int value_dim) {
  return any::ForwardConfig{rows}.shared_bytes(head_dim, value_dim);
}

std::optional<std::string> refusal(const ForwardKernel& kernel, const core::Geometry& geometry,
                                   const Problem&) {
  const int bytes = kernel.shared_bytes(geometry.head_dim, geometry.value_dim);
  if (bytes <= shared_limit) return std::nullopt;
  return "its tile takes " + std::to_string(bytes) +
         " bytes of shared memory at these head dimensions: every card has " +
         std::to_string(shared_limit);
}

planner::KernelCost cost(const ForwardKernel& kernel, const core::Geometry& geometry) {
  return any_cost({geometry.head_dim, geometry.value_dim, kernel.candidate.tile, Formulas::none,
                   kernel.blocks_a_multiprocessor});
}
planner::KernelCost interpreted_cost(const ForwardKernel& kernel, const core::Geometry& geometry) {
  return with_interpreter(cost(kernel, geometry));
}

/// The same launch, with the formula behind the parameters.
class InterpretedLaunch final : public FamilyLaunch {
 public:
  InterpretedLaunch(const ForwardKernel& kernel, const LaunchPlan& plan)
      : kernel_(kernel), shared_bytes_(plan.shared_bytes) {
    std::memcpy(&programs_, plan.formula.data(), sizeof programs_);
  }
  void enqueue(const ForwardParams& params, unsigned*, void* stream) const override {
    launch({kernel_.function, params.shape.items, kernel_.threads, shared_bytes_,
            static_cast<cudaStream_t>(stream)},
           kernel_.candidate.name, params, programs_);
  }

 private:
  const ForwardKernel& kernel_;
  int shared_bytes_;
  any::FormulaPrograms programs_;
};

std::unique_ptr<const FamilyLaunch> interpreted_launch(const ForwardKernel& kernel,
                                                       const LaunchPlan& plan) {
  return std::make_unique<InterpretedLaunch>(kernel, plan);
}

// Of one multiprocessor: 128 float32 multiply-adds a cycle at best, of which plain loads through
// shared memory leave about a quarter; 16 exponentials; 128 bytes of shared memory.
template <int rows> ForwardKernel row(const char* name, const void* function) {
  ForwardKernel kernel{{name,
                        Backend::cuda,
                        DType::f32,
                        {rows, any::ForwardConfig::tile_keys, rows},
                        "FFMA, plain loads",
                        64,
                        16,
                        128,
                        rows / any::ForwardConfig::warps},
                       function,
                       any::ForwardConfig::threads,
                       shared_bytes<rows>,
                       refusal,
                       rows};
  kernel.cost = cost;
  return kernel;
}

template <int rows> ForwardKernel interpreted_row(const char* name, const void* function) {
  ForwardKernel kernel = row<rows>(name, function);
  kernel.reading = FormulaReading::interpreted;
  kernel.family_launch = interpreted_launch;
  kernel.cost = interpreted_cost;
  return kernel;
}

}  // namespace

std::span<const ForwardKernel> any_kernels() {
  static const ForwardKernel table[] = {
      row<16>("any 16 rows", any_forward_16()), row<8>("any 8 rows", any_forward_8()),
      interpreted_row<16>("any 16 rows interpreted", any_interpreted_16()),
      interpreted_row<8>("any 8 rows interpreted", any_interpreted_8())};
  return table;
}

}  // namespace tilefold::cuda
