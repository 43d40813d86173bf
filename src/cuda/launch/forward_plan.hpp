// Everything about a plan that stays the same from run to run, on the device; and the binding of
// one run's tensors to it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cuda/backend.hpp"
#include "cuda/jit/module.hpp"
#include "cuda/kernels/any/programs.hpp"
#include "cuda/kernels/clear_rows.hpp"
#include "cuda/kernels/forward_params.cuh"
#include "cuda/kernels/length_sources.hpp"
#include "cuda/launch/formula_data.hpp"
#include "cuda/launch/forward_kernel.hpp"
#include "cuda/runtime/buffer.hpp"

namespace tilefold::cuda {

/// Offsets into the workspace, in bytes.
struct WorkspaceLayout {
  std::size_t counters = 0, sequences = 0, part_max = 0, part_sum = 0, part_out = 0, bytes = 0;
  /// `counter_count`: ForwardKernel::counters.
  WorkspaceLayout(const core::Geometry& geometry, const planner::Schedule& schedule,
                  int counter_count);
};

/// The work list of a schedule; empty where all sequences have the same lengths, or lengths live on
/// the device: then kernels derive their work from the shape.
std::vector<ForwardWork> work_list(const core::Geometry& geometry,
                                   const planner::Schedule& schedule);
WorkShape work_shape(const core::Geometry& geometry, const planner::Schedule& schedule);

/// Causal rows of equal sequences: blocks take row tiles from as many heads in turn as have their
/// keys and values in half an H200's L2 cache. The last blocks are then the shortest of many heads;
/// head after head, the last head's longest block ends long after all others. H200, head dimension
/// 128, 16 heads of 16384 keys: 8 MB a head, so 4 heads of 128 tiles together. `pack`: query heads
/// of a list of rows.
void interleave_runs(const core::Geometry& geometry, int pack, const RangeMask& range,
                     WorkShape& shape);

/// Page ids of every sequence, one after the other, and where each begins; host tables only.
struct PageIds {
  std::vector<int> ids;
  std::vector<long long> first;  // [batch]
};
PageIds gather_page_ids(const core::Geometry& geometry, const PageTable& pages);

std::vector<SequenceInfo> sequence_infos(const core::Geometry& geometry, const PageIds& pages);

/// Which weights enter their product in two parts (docs/numerics.md).
/// `counted`: the range mask says how many keys a row sees.
ExactWeights exact_weights(const core::Geometry& geometry, Reproducibility mode, bool counted);

/// Kernel parameters of everything but pointers.
ForwardParams describe_problem(const core::Geometry& geometry, const planner::Schedule& schedule,
                               const Problem& problem);

struct ForwardLaunch {
  ForwardParams params;
  std::optional<LengthSources> lengths;  // of a device
  unsigned* counters;                    // in the workspace
};

class ForwardPlan final : public Prepared {
 public:
  ForwardPlan(const Execution& execution, const ForwardKernel& kernel);

  int device() const { return device_; }
  void* workspace() const override { return workspace_.data(); }
  void allocate_workspace(std::size_t bytes) override;
  bool has_formula_of(const Problem& problem) const override;
  void renew_formula(const Execution& execution, void* stream) override;
  std::uint32_t status() const override;

  /// Throws Error(plan_mismatch) where a host table changed since the plan was prepared.
  void check_page_ids(const Execution& execution, const Tensors& tensors) const;
  ForwardLaunch bind(const Execution& execution, const Tensors& tensors, void* workspace) const;
  void enqueue_lengths(const ForwardLaunch& launch, void* stream) const;
  void enqueue_forward(const ForwardLaunch& launch, void* stream) const;

 private:
  void upload_formula(const core::Geometry& geometry, const Problem& problem);
  void upload_descriptions(const Problem& problem);
  void make_family_launch(const Execution& execution, void* stream);
  void upload_lengths(const Execution& execution);
  void upload_index(const TensorView& tensor, IndexArray& array);
  template <class T> T* keep(const std::vector<T>& elements);

  std::shared_ptr<const jit::Module>
      module_;            // of a kernel compiled at run time; outlives launches
  ForwardKernel kernel_;  // with that kernel's function
  const RunTimeKernel* run_time_;
  int device_;
  WorkspaceLayout layout_;
  std::vector<DeviceBuffer> buffers_, formula_buffers_;
  unsigned formula_revision_ = 0;
  std::optional<any::FormulaPrograms> programs_;  // interpreted, or of read_lengths alone
  DeviceBuffer status_, workspace_;
  ForwardParams params_;
  LengthSources lengths_{};
  OutputRows output_rows_{};
  bool clears_ = false;  // some rows of the output belong to nobody
  int shared_bytes_ = 0;
  std::unique_ptr<const FamilyLaunch> family_launch_;  // null: one launch of a block an item
  std::vector<ScoreStepImage> steps_;
  PageIds pages_;
};

}  // namespace tilefold::cuda
