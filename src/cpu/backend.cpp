// Runs a schedule: work items in parallel, then the merge of the rows that were split.
#include "cpu/backend.hpp"

#include <atomic>

#include "core/parallel_for.hpp"
#include "cpu/block.hpp"
#include "cpu/registry.hpp"
#include "cpu/scratch.hpp"

namespace tilefold::cpu {

namespace {

bool any_split(const core::Geometry& g, const planner::Schedule& schedule) {
  if (schedule.split_keys == 0) return false;
  for (const core::Sequence& s : g.sequences)
    if (schedule.splits(s) > 1) return true;
  return false;
}

/// The workspace: scratch of each thread, then the parts of split rows.
template <class F> class Memory {
 public:
  Memory(const core::Geometry& g, const planner::Schedule& schedule, const KernelSet<F>& kernels,
         int threads)
      : geometry_(g), block_rows_(schedule.tile.block_queries) {
    for (const TileKernel<F>* kernel : {&kernels.wide, &kernels.narrow, &kernels.precise}) {
      slot_bytes_ = std::max(slot_bytes_, scratch_bytes(*kernel));
      part_bytes_ = std::max(part_bytes_, part_bytes(*kernel));
    }
    parts_begin_ = slot_bytes_ * std::size_t(threads);
    parts_ = any_split(g, schedule) ? std::size_t(schedule.items()) : 0;
  }
  std::size_t bytes() const { return parts_begin_ + parts_ * part_bytes_; }

  Scratch<F> scratch(void* workspace, int slot, const TileKernel<F>& kernel) const {
    Carver carver(static_cast<char*>(workspace) + slot_bytes_ * std::size_t(slot));
    return Scratch<F>::carve(carver, kernel, shape_for(kernel));
  }
  BlockState<F> part(void* workspace, std::int64_t index, const TileKernel<F>& kernel) const {
    Carver carver(static_cast<char*>(workspace) + parts_begin_ + part_bytes_ * std::size_t(index));
    return BlockState<F>::carve(carver, shape_for(kernel).tiles, kernel.lanes(),
                                geometry_.value_dim);
  }

 private:
  BlockShape shape_for(const TileKernel<F>& kernel) const {
    const int tiles = (block_rows_ + kernel.lanes() - 1) / kernel.lanes();
    return {tiles, geometry_.head_dim, geometry_.value_dim};
  }
  std::size_t part_bytes(const TileKernel<F>& kernel) const {
    Carver counting(nullptr);
    BlockState<F>::carve(counting, shape_for(kernel).tiles, kernel.lanes(), geometry_.value_dim);
    return counting.used();
  }
  std::size_t scratch_bytes(const TileKernel<F>& kernel) const {
    Carver counting(nullptr);
    Scratch<F>::carve(counting, kernel, shape_for(kernel));
    return counting.used();
  }

  const core::Geometry& geometry_;
  int block_rows_;
  std::size_t slot_bytes_ = 0, parts_begin_ = 0, part_bytes_ = 0, parts_ = 0;
};

Job job_of(const Execution& execution, const Tensors& tensors) {
  const core::Geometry& g = execution.geometry;
  const bool view = execution.options.value_source == ValueSource::view_of_key;
  const PageLayout layout = execution.options.page_layout;
  return {g,
          execution.schedule,
          execution.options,
          tensors,
          KeyRows(g, tensors, tensors.key, tensors.key_descale, layout),
          KeyRows(g, tensors, core::value_of(tensors, execution.options),
                  view ? tensors.key_descale : tensors.value_descale, layout),
          QueryRows(g, tensors)};
}

/// Sums of TileCounts that threads add to.
struct SharedCounts {
  std::atomic<std::int64_t> none{0}, partial{0}, full{0};
  void add(const TileCounts& counts) {
    none += counts.none;
    partial += counts.partial;
    full += counts.full;
  }
};

/// Registers that a kernel sets up once for all steps of an item.
template <class F> class ThreadBracket {
 public:
  explicit ThreadBracket(const TileKernel<F>& kernel) : kernel_(kernel) { kernel_.begin_thread(); }
  ~ThreadBracket() { kernel_.end_thread(); }
  ThreadBracket(const ThreadBracket&) = delete;
  ThreadBracket& operator=(const ThreadBracket&) = delete;

 private:
  const TileKernel<F>& kernel_;
};

template <class F> void run_items(const Job& job, const KernelSet<F>& kernels, int threads,
                                  void* workspace, SharedCounts& visited) {
  const Memory<F> memory(job.geometry, job.schedule, kernels, threads);
  const std::int64_t items = job.schedule.items();
  // Under causal masks the last items are the longest: they start first.
  core::parallel_for(items, threads, [&](std::int64_t index, int slot) {
    const planner::WorkItem item = job.schedule.item(job.geometry, items - 1 - index);
    const TileKernel<F>& kernel = kernels.of(job.geometry, item);
    const Scratch<F> scratch = memory.scratch(workspace, slot, kernel);
    const BlockState<F> state =
        item.splits > 1 ? memory.part(workspace, item.part, kernel) : scratch.state;
    const ThreadBracket<F> bracket(kernel);
    visited.add(Block<F>(job, item, kernel, scratch, state).compute());
    if (item.splits == 1) finish_rows(job, item, state, scratch.row);
  });
  if (!any_split(job.geometry, job.schedule)) return;
  core::parallel_for(items, threads, [&](std::int64_t index, int slot) {
    const planner::WorkItem item = job.schedule.item(job.geometry, index);
    if (item.splits == 1 || item.split != 0) return;
    const TileKernel<F>& kernel = kernels.of(job.geometry, item);
    const std::int64_t rows = item.last_row - item.first_row;
    const int tiles = int((rows + kernel.lanes() - 1) / kernel.lanes());
    const BlockState<F> first = memory.part(workspace, item.part, kernel);
    for (int split = 1; split < item.splits; ++split)
      join_blocks(first, memory.part(workspace, item.part + split, kernel), tiles);
    finish_rows(job, item, first, memory.scratch(workspace, slot, kernel).row);
  });
}

}  // namespace

std::size_t workspace_bytes(const core::Geometry& geometry, const planner::Schedule& schedule,
                            int kernel_index, int threads) {
  threads = core::thread_count(threads);
  if (is_double(kernel_index))
    return Memory<double>(geometry, schedule, double_set(), threads).bytes();
  return Memory<float>(geometry, schedule, float_set(kernel_index), threads).bytes();
}

void run(const Execution& execution, const Tensors& tensors, void* workspace, TileCounts* visited) {
  const Job job = job_of(execution, tensors);
  const int threads = core::thread_count(execution.threads);
  SharedCounts counts;
  clear_unowned_rows(job);
  if (is_double(execution.kernel_index))
    run_items(job, double_set(), threads, workspace, counts);
  else
    run_items(job, float_set(execution.kernel_index), threads, workspace, counts);
  if (visited == nullptr) return;
  visited->none += counts.none;
  visited->partial += counts.partial;
  visited->full += counts.full;
}

}  // namespace tilefold::cpu
