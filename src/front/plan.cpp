// The public plan: gathers the backends' kernels, chooses, and hands runs to the chosen backend.
#include "tilefold/plan.hpp"

#include <cstdlib>
#include <new>

#include "core/geometry.hpp"
#include "core/parallel_for.hpp"
#include "cpu/backend.hpp"
#include "plan/choose.hpp"
#include "plan/explain.hpp"
#include "tilefold/error.hpp"

namespace tilefold {

namespace {

constexpr std::size_t workspace_alignment = 64;

struct AlignedFree {
  void operator()(void* memory) const { std::free(memory); }
};
using OwnedMemory = std::unique_ptr<void, AlignedFree>;

OwnedMemory allocate(std::size_t bytes) {
  const std::size_t rounded =
      (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
  OwnedMemory memory(std::aligned_alloc(workspace_alignment, rounded));
  if (!memory && bytes != 0)
    throw Error(ErrorCode::out_of_memory,
                "a workspace of " + std::to_string(bytes) + " bytes cannot be allocated");
  return memory;
}

}  // namespace

struct Plan::State {
  Problem problem;
  core::Geometry geometry;
  planner::Schedule schedule;
  int kernel_index = 0;
  int threads = 1;
  std::size_t workspace_bytes = 0;
  OwnedMemory workspace;

  const planner::Candidate& kernel() const { return cpu::kernels()[std::size_t(kernel_index)]; }
  planner::Explanation explain() const {
    planner::Explanation e =
        planner::explain(cpu::kernels(), kernel_index, geometry, problem, schedule);
    e.threads = threads;
    e.workspace_bytes = workspace_bytes;
    return e;
  }
};

Plan plan(const Problem& problem) {
  auto state = std::make_shared<Plan::State>();
  state->problem = problem;
  state->geometry = core::resolve(problem);
  state->kernel_index = planner::choose(cpu::kernels(), state->geometry, problem);
  state->threads = core::thread_count(problem.options.threads);
  state->schedule = planner::make_schedule(state->geometry, state->kernel().tile,
                                           problem.options.reproducibility, state->threads);
  state->workspace_bytes =
      cpu::workspace_bytes(state->geometry, state->schedule, state->kernel_index, state->threads);
  return Plan(std::move(state));
}

std::string Plan::explain() const { return planner::to_text(state_->explain()); }
std::string Plan::explain_json() const { return planner::to_json(state_->explain()); }

TileCounts Plan::count_tiles() const {
  return planner::count_work(state_->geometry, state_->schedule,
                             state_->problem.options.mask.node())
      .tiles;
}

const char* Plan::kernel() const { return state_->kernel().name; }
std::size_t Plan::workspace_bytes() const { return state_->workspace_bytes; }

void Plan::prepare() {
  if (!state_->workspace && state_->workspace_bytes != 0)
    state_->workspace = allocate(state_->workspace_bytes);
}

void Plan::run(const Tensors& tensors, const RunOptions& options) const {
  const Workspace& given = options.workspace;
  if (options.stream != nullptr)
    throw Error(ErrorCode::conflicting_argument,
                "run() got a stream: the CPU backend runs on the caller's thread and has none");
  if (given.data != nullptr && given.bytes < state_->workspace_bytes)
    throw Error(ErrorCode::capacity_exceeded, "workspace has " + std::to_string(given.bytes) +
                                                  " bytes: the plan needs " +
                                                  std::to_string(state_->workspace_bytes));
  if (reinterpret_cast<std::uintptr_t>(given.data) % workspace_alignment != 0)
    throw Error(ErrorCode::misaligned, "workspace must start at a multiple of 64 bytes");
  core::check_same_description(state_->problem.tensors, tensors);
  core::check_same_lengths(state_->geometry, tensors, state_->problem.options);
  core::check_memory(tensors);
  if (given.data == nullptr) Plan(state_).prepare();
  void* workspace = given.data != nullptr ? given.data : state_->workspace.get();
  cpu::run({state_->geometry, state_->schedule, state_->problem.options, state_->kernel_index,
            state_->threads},
           tensors, workspace, options.visited);
}

std::uint32_t Plan::status() const { return 0; }

}  // namespace tilefold
