// The public plan: gathers the backends' kernels, chooses, and hands runs to the chosen backend.
#include "tilefold/plan.hpp"

#include <cstdlib>
#include <new>

#include "core/geometry.hpp"
#include "core/parallel_for.hpp"
#include "core/planned_tensors.hpp"
#include "cpu/backend.hpp"
#include "cuda/backend.hpp"
#include "front/kernels.hpp"
#include "plan/choose.hpp"
#include "plan/explain.hpp"
#include "score/program/side_tensor_state.hpp"
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
  core::PlannedTensors planned;
  core::Geometry geometry;
  planner::Schedule schedule;
  int kernel_index = 0;  // in all_kernels()
  int cuda_index = -1;   // in cuda::kernels(); -1: a kernel of the CPU
  int threads = 1;       // CPU backend
  std::size_t workspace_bytes = 0;
  OwnedMemory workspace;
  std::shared_ptr<const cuda::RunTimeKernel> run_time;  // where plan() compiled the formula
  std::shared_ptr<cuda::Prepared> prepared;

  const planner::Candidate& kernel() const { return all_kernels()[std::size_t(kernel_index)]; }
  bool on_cuda() const { return cuda_index >= 0; }
  cuda::Execution on_device() const {
    return {geometry, schedule, problem, cuda_index, run_time.get()};
  }
  void make_cpu_schedule();
  void make_cuda_schedule();
  void check_workspace(const Workspace& given) const;
  void check_tensors(const Tensors& tensors, const core::TensorPointers& given) const;
  void prepare_cuda(const RunOptions& options);
  void run_on_cpu(const Tensors& tensors, const RunOptions& options);
  void run_on_cuda(const Tensors& tensors, const core::TensorPointers& given,
                   const RunOptions& options);
  planner::Machine machine() const;
  planner::Explanation explain() const {
    planner::Explanation e =
        planner::explain(all_kernels(), kernel_index, geometry, problem, schedule, machine());
    e.workspace_bytes = workspace_bytes;
    if (run_time) e.compilation = cuda::origin_of(*run_time);
    if (on_cuda() && cuda::interprets(cuda_index))
      e.interpretation = cuda::interpretation_of(problem);
    return e;
  }
};

void Plan::State::make_cpu_schedule() {
  threads = core::thread_count(problem.options.threads);
  schedule =
      planner::make_schedule(geometry, kernel().tile, problem.options.reproducibility, threads);
  workspace_bytes = cpu::workspace_bytes(geometry, schedule, kernel_index, threads);
}

planner::Machine Plan::State::machine() const {
  planner::Machine machine;
  machine.cores = threads;
  if (!on_cuda()) return machine;
  const cuda::Card card = cuda::card(problem.tensors.query.device());
  return {planner::Machine::Kind::gpu,
          card.name,
          card.here,
          card.figures.multiprocessors,
          card.figures.bytes_per_second,
          card.figures.cycles_per_second};
}

void Plan::State::make_cuda_schedule() {
  schedule = cuda::make_schedule(geometry, cuda_index, problem);
  run_time = cuda::compile_formula(cuda_index, geometry, schedule, problem);
  workspace_bytes = cuda::workspace_bytes(on_device());
}

Plan plan(const Problem& problem) {
  auto state = std::make_shared<Plan::State>();
  state->problem = problem;
  state->geometry = core::resolve(problem);
  state->kernel_index = planner::choose(all_kernels(), state->geometry, problem);
  if (state->kernel().backend == Backend::cuda)
    state->cuda_index = state->kernel_index - first_cuda_kernel();
  if (state->on_cuda())
    state->make_cuda_schedule();
  else
    state->make_cpu_schedule();
  state->planned = core::PlannedTensors(
      problem.tensors, state->on_cuda() ? cuda::input_alignment(state->cuda_index) : 1);
  return Plan(std::move(state));
}

void Plan::read_side_tensors(void* stream) const {
  const score::MaskNode* mask = state_->problem.options.mask.node();
  if (mask == nullptr) return;
  mask->each_side_tensor([&](score::SideTensorState& tensor) {
    if (tensor.on_host()) return;
    const TensorView::ByteSpan span = tensor.values.byte_span();
    std::vector<unsigned char> bytes(std::size_t(span.last - span.first));
    cuda::read_back(bytes.data(),
                    static_cast<const unsigned char*>(tensor.values.data()) + span.first,
                    bytes.size(), stream);
    tensor.show(bytes.data() - span.first);
  });
}

std::string Plan::explain() const { return planner::to_text(state_->explain()); }
std::string Plan::explain_json() const { return planner::to_json(state_->explain()); }

TileCounts Plan::count_tiles() const {
  const core::Geometry sized = core::sized_by_capacity(state_->geometry, state_->problem.options);
  return planner::count_work(sized, state_->schedule, state_->problem.options.mask.node()).tiles;
}

const char* Plan::kernel() const { return state_->kernel().name; }
std::size_t Plan::workspace_bytes() const { return state_->workspace_bytes; }

void Plan::prepare() {
  State& s = *state_;
  if (!s.on_cuda()) {
    if (!s.workspace && s.workspace_bytes != 0) s.workspace = allocate(s.workspace_bytes);
    return;
  }
  cuda::require_device(s.problem.tensors.query.device());
  if (!s.prepared)
    s.prepared = cuda::prepare(s.on_device());
  else if (!s.prepared->has_formula_of(s.problem))
    s.prepared->renew_formula(s.on_device(), nullptr);
  if (s.prepared->workspace() == nullptr && s.workspace_bytes != 0)
    s.prepared->allocate_workspace(s.workspace_bytes);
}

void Plan::State::run_on_cpu(const Tensors& tensors, const RunOptions& options) {
  if (options.stream != nullptr)
    throw Error(ErrorCode::conflicting_argument,
                "run() got a stream: the CPU backend runs on the caller's thread and has none");
  const bool own = options.workspace.data == nullptr;
  if (own && !workspace && workspace_bytes != 0) workspace = allocate(workspace_bytes);
  void* memory = own ? workspace.get() : options.workspace.data;
  cpu::run({geometry, schedule, problem.options, kernel_index, threads}, tensors, memory,
           options.visited);
}

// Uploads and allocations of a first run. A captured stream may hold neither.
void Plan::State::prepare_cuda(const RunOptions& options) {
  const bool needs_own = options.workspace.data == nullptr && workspace_bytes != 0;
  const bool old_values = prepared && !prepared->has_formula_of(problem);
  if (prepared && !old_values && !(needs_own && prepared->workspace() == nullptr)) return;
  if (cuda::is_capturing(options.stream))
    throw Error(ErrorCode::not_prepared,
                old_values
                    ? "the stream is being captured and the formula has new values: call prepare() "
                      "first"
                    : "the stream is being captured and the plan is not prepared: call prepare() "
                      "first");
  if (!prepared) prepared = cuda::prepare(on_device());
  if (old_values) prepared->renew_formula(on_device(), options.stream);
  if (needs_own && prepared->workspace() == nullptr) prepared->allocate_workspace(workspace_bytes);
}

void Plan::State::run_on_cuda(const Tensors& tensors, const core::TensorPointers& given,
                              const RunOptions& options) {
  if (options.visited != nullptr)
    throw Error(ErrorCode::unsupported,
                "run() got `visited`: the CUDA backend counts no tiles, see Plan::count_tiles()");
  if (!prepared) cuda::require_device(problem.tensors.query.device());
  cuda::check_pointers(planned, given);
  prepare_cuda(options);
  void* memory = options.workspace.data != nullptr ? options.workspace.data : prepared->workspace();
  cuda::run(on_device(), *prepared, tensors, memory, options.stream);
}

void Plan::State::check_workspace(const Workspace& given) const {
  if (given.data == nullptr) return;
  if (given.bytes < workspace_bytes)
    throw Error(ErrorCode::capacity_exceeded, "workspace has " + std::to_string(given.bytes) +
                                                  " bytes: the plan needs " +
                                                  std::to_string(workspace_bytes));
  if (reinterpret_cast<std::uintptr_t>(given.data) % workspace_alignment != 0)
    throw Error(ErrorCode::misaligned, "workspace must start at a multiple of 64 bytes");
}

// A host's time to launch is a few microseconds: what is the same in every run is not worked out
// again, and only where the short answer is no the long one says why, if there is a why.
void Plan::State::check_tensors(const Tensors& tensors, const core::TensorPointers& given) const {
  if (!planned.describes(tensors, given)) core::check_same_description(problem.tensors, tensors);
  if (!planned.are_usable_and_apart(given)) {
    core::check_memory(tensors);
    if (on_cuda()) cuda::check_alignment(on_device(), tensors);
  }
  if (!planned.have_same_lengths(given))
    core::check_same_lengths(geometry, tensors, problem.options);
}

void Plan::run(const Tensors& tensors, const RunOptions& options) const {
  State& s = *state_;
  const core::TensorPointers given = core::pointers_to(tensors);
  s.check_workspace(options.workspace);
  s.check_tensors(tensors, given);
  if (s.on_cuda())
    s.run_on_cuda(tensors, given, options);
  else
    s.run_on_cpu(tensors, options);
}

std::uint32_t Plan::status() const { return state_->prepared ? state_->prepared->status() : 0; }

}  // namespace tilefold
