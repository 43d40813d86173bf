// Chooses nothing and computes nothing itself: tables, uploads, and the four launches of a run.
#include "cuda/backend.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>

#include "cuda/launch/forward_kernel.hpp"
#include "cuda/launch/forward_plan.hpp"
#include "cuda/launch/interpreted.hpp"
#include "cuda/launch/kernel_costs.hpp"
#include "cuda/launch/work_order.hpp"
#include "cuda/runtime/device.hpp"
#include "cuda/runtime/launch.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda {

namespace {

// Fastest family first.
struct Family {
  const char* name;
  std::span<const ForwardKernel> kernels;
  int score_passes;  // through shared memory
};
std::vector<Family> families() {
  return {{"sm90", sm90_kernels(), 0},
          {"compiled", compiled_kernels(), 0},
          {"nvrtc sm90", sm90_run_time_kernels(), 0},
          {"sm80", sm80_kernels(), 0},
          {"nvrtc sm80", sm80_run_time_kernels(), 0},
          {"any", any_kernels(), 3}};
}

std::vector<const ForwardKernel*> all_kernels() {
  std::vector<const ForwardKernel*> all;
  for (const Family& family : families())
    for (const ForwardKernel& kernel : family.kernels) all.push_back(&kernel);
  return all;
}
const std::vector<const ForwardKernel*>& table() {
  static const std::vector<const ForwardKernel*> kernels = all_kernels();
  return kernels;
}

std::optional<std::string> device_refusal(Device device) {
  const DeviceReport& report = device_report();
  if (report.devices.empty()) return std::nullopt;
  const DeviceProperties* p = device_properties(device.index);
  if (p == nullptr)
    return "there is no " + to_string(device) + ": this machine has " +
           std::to_string(report.devices.size()) + " CUDA devices";
  if (p->major < 8)
    return "its code needs compute capability 8.0: " + p->name + " has " +
           std::to_string(p->major) + "." + std::to_string(p->minor);
  return std::nullopt;
}

// What no kernel computes that takes a formula by its description.
std::optional<std::string> description_refusal(const core::Geometry& geometry,
                                               const Problem& problem) {
  std::string reason;
  if (!mask_image(problem.options.mask.node(), reason)) return reason;
  const auto steps = score_steps(problem, reason);
  if (!steps) return reason;
  return bias_refusal(geometry, *steps);
}

// Compiled kernels are asked for themselves.
std::optional<std::string> formula_refusal(const ForwardKernel& kernel,
                                           const core::Geometry& geometry, const Problem& problem) {
  if (kernel.compiled != nullptr) return std::nullopt;
  return kernel.reading == FormulaReading::interpreted ? interpreter_refusal(geometry, problem)
                                                       : description_refusal(geometry, problem);
}

// "sm90 bf16", "any 16": names up to their tile, of which each kernel has its own.
std::string beginning_of(const char* name) {
  const std::string whole = name;
  return whole.substr(0, whole.find(' ', whole.find(' ') + 1));
}

bool begins_with(const char* name, const char* wanted) {
  return std::strncmp(name, wanted, std::strlen(wanted)) == 0;
}

// For tests and comparisons: only kernels whose names begin with TILEFOLD_CUDA_KERNELS. Throws
// where none does.
std::optional<std::string> not_asked_for(const char* name) {
  const char* const wanted = std::getenv("TILEFOLD_CUDA_KERNELS");
  if (wanted == nullptr || begins_with(name, wanted)) return std::nullopt;
  std::vector<std::string> beginnings;
  for (const ForwardKernel* kernel : table()) {
    if (begins_with(kernel->candidate.name, wanted))
      return "TILEFOLD_CUDA_KERNELS asks for " + std::string(wanted);
    const std::string beginning = beginning_of(kernel->candidate.name);
    if (std::find(beginnings.begin(), beginnings.end(), beginning) == beginnings.end())
      beginnings.push_back(beginning);
  }
  std::string message = "TILEFOLD_CUDA_KERNELS is '" + std::string(wanted) +
                        "': no kernel's name begins so; `tilefold kernels` lists the names, which "
                        "begin with";
  for (const std::string& beginning : beginnings)
    message += (&beginning == &beginnings.front() ? " " : ", ") + beginning;
  throw Error(ErrorCode::invalid_argument, message);
}

const ForwardKernel* kernel_of(const planner::Candidate& candidate) {
  for (const ForwardKernel* kernel : table())
    if (std::strcmp(kernel->candidate.name, candidate.name) == 0) return kernel;
  return nullptr;
}

std::optional<std::string> limits(const planner::Candidate& candidate,
                                  const core::Geometry& geometry, const Problem& problem) {
  const ForwardKernel* kernel = kernel_of(candidate);
  if (kernel == nullptr) return "it is not in the table of kernels";
  auto reason = formula_refusal(*kernel, geometry, problem);
  if (!reason) reason = device_refusal(problem.tensors.query.device());
  if (!reason) reason = not_asked_for(candidate.name);
  return reason ? reason : kernel->refusal(*kernel, geometry, problem);
}

constexpr int invariant_split = 4096;

void number_items(const core::Geometry& geometry, planner::Schedule& schedule) {
  schedule.first_item.assign(1, 0);
  schedule.first_item.reserve(geometry.sequences.size() + 1);
  for (const core::Sequence& s : geometry.sequences)
    schedule.first_item.push_back(schedule.first_item.back() + schedule.lists(geometry) *
                                                                   schedule.blocks(geometry, s) *
                                                                   schedule.splits(s));
}

int slots(const ForwardKernel& kernel, const Problem& problem) {
  return kernel.blocks_a_multiprocessor *
         card(problem.tensors.query.device()).figures.multiprocessors;
}

/// Sizes are those of `sized`, lengths or capacities.
planner::Schedule schedule_for(const core::Geometry& sized, const ForwardKernel& kernel,
                               const Problem& problem) {
  planner::Schedule schedule;
  schedule.tile = kernel.candidate.tile;
  if (kernel.packed_heads != nullptr) schedule.pack = kernel.packed_heads(kernel, sized);
  number_items(sized, schedule);
  schedule.split_keys = problem.options.reproducibility == Reproducibility::batch_invariant
                            ? invariant_split
                            : choose_split({schedule.items(), sized.max_key_length,
                                            schedule.tile.tile_keys, slots(kernel, problem)});
  if (schedule.split_keys != 0) number_items(sized, schedule);
  return schedule;
}

/// Heads of few outputs multiply their weights in two parts, on the tensor cores.
bool has_second_parts(const core::Geometry& sized, const ForwardKernel& kernel,
                      const Problem& problem, bool counted) {
  const long long outputs = 1LL * sized.max_query_length * sized.value_dim;
  return bits_of(kernel.candidate.compute) == 16 &&
         outputs < exact_weights(sized, problem.options.reproducibility, counted).outputs;
}

planner::Prediction predict(const planner::Candidate& candidate, const core::Geometry& geometry,
                            const Problem& problem) {
  const ForwardKernel& kernel = *kernel_of(candidate);
  std::optional<core::Geometry> by_capacity;  // a copy only where there is something to change
  if (geometry.lengths_on_device) by_capacity = core::sized_by_capacity(geometry, problem.options);
  const core::Geometry& sized = by_capacity ? *by_capacity : geometry;
  std::string reason;
  // A compiled mask is none that a range or a program says.
  const std::optional<MaskImage> image = mask_image(problem.options.mask.node(), reason);
  const bool counted = image && image->data.program.everything();
  const RangeMask range = image ? image->data.range : RangeMask{};
  planner::KernelCost cost = kernel.cost != nullptr ? kernel.cost(kernel, sized) : candidate.cost;
  if (has_second_parts(sized, kernel, problem, counted)) cost = with_second_parts(cost);
  const planner::CardFigures card = cuda::card(problem.tensors.query.device()).figures;
  const planner::Schedule schedule = schedule_for(sized, kernel, problem);
  if (schedule.packed_heads(sized) > 1) cost.item_cycles += kernel.packed_cycles;
  planner::Load load = load_of(sized, schedule, key_band(range), card, slots(kernel, problem));
  // What a program hides is not counted: all families would pass the same tiles by.
  if (!counted) load.cut_tiles = load.tiles;
  planner::Prediction prediction = planner::predict(cost, load, card);
  prediction.counts_hidden = !counted;
  return prediction;
}

bool checks_values() {
  const char* wanted = std::getenv("TILEFOLD_CHECK");
  return wanted != nullptr && std::strcmp(wanted, "1") == 0;
}

void check_device_values(const ForwardPlan& plan, void* stream) {
  if (is_capturing(stream))
    throw Error(ErrorCode::conflicting_argument,
                "TILEFOLD_CHECK is 1: it waits for the device, which a captured stream cannot");
  require_success(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)),
                  "waiting for lengths to be read");
  const std::uint32_t status = plan.status();
  if (status & Status::length_invalid)
    throw Error(ErrorCode::length_invalid,
                "lengths on the device are out of order or past a tensor or a capacity");
  if (status & Status::page_out_of_range)
    throw Error(ErrorCode::page_out_of_range,
                "a page id on the device that must be read lies outside the pool");
}

}  // namespace

std::span<const planner::Candidate> kernels() {
  static const std::vector<planner::Candidate> candidates = [] {
    std::vector<planner::Candidate> all;
    for (const Family& family : families())
      for (const ForwardKernel& kernel : family.kernels) {
        all.push_back(kernel.candidate);
        all.back().limits = limits;
        all.back().predict = predict;
        all.back().family = family.name;
        all.back().score_passes = family.score_passes;
      }
    return all;
  }();
  return candidates;
}

Presence presence() {
  Presence found{{}, device_report().absence};
  for (const DeviceProperties& p : device_report().devices)
    found.devices.push_back(p.name + ", compute capability " + std::to_string(p.major) + "." +
                            std::to_string(p.minor) + ", " + std::to_string(p.multiprocessors) +
                            " multiprocessors");
  return found;
}

Card card(Device device) {
  const DeviceProperties* p = device_properties(device.index);
  if (p == nullptr) return {"NVIDIA H200", false, planner::h200};
  return {p->name,
          true,
          {p->multiprocessors, p->cycles_per_second, p->bytes_per_second, p->cache_bytes}};
}

void require_device(Device device) {
  if (const std::string& absence = device_report().absence; !absence.empty())
    throw Error(ErrorCode::unsupported, absence);
  if (const auto reason = device_refusal(device)) throw Error(ErrorCode::unsupported, *reason);
}

planner::Schedule make_schedule(const core::Geometry& geometry, int kernel_index,
                                const Problem& problem) {
  const core::Geometry sized = core::sized_by_capacity(geometry, problem.options);
  const ForwardKernel& kernel = *table()[std::size_t(kernel_index)];
  planner::Schedule schedule = schedule_for(sized, kernel, problem);
  if (schedule.items() > std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorCode::unsupported, "the problem has " + std::to_string(schedule.items()) +
                                            " tiles of rows: one launch takes at most 2147483647");
  return schedule;
}

std::shared_ptr<const RunTimeKernel> compile_formula(int kernel_index,
                                                     const core::Geometry& geometry,
                                                     const planner::Schedule& schedule,
                                                     const Problem& problem) {
  const ForwardKernel& kernel = *table()[std::size_t(kernel_index)];
  if (kernel.at_run_time == nullptr) return nullptr;
  return compile_formula(kernel, core::sized_by_capacity(geometry, problem.options), schedule,
                         problem);
}

bool interprets(int kernel_index) {
  return table()[std::size_t(kernel_index)]->reading == FormulaReading::interpreted;
}

std::size_t workspace_bytes(const Execution& execution) {
  return WorkspaceLayout(execution.geometry, execution.schedule,
                         table()[std::size_t(execution.kernel_index)]->counters)
      .bytes;
}

std::shared_ptr<Prepared> prepare(const Execution& execution) {
  return std::make_shared<ForwardPlan>(execution, *table()[std::size_t(execution.kernel_index)]);
}

std::size_t input_alignment(int kernel_index) {
  return std::size_t(table()[std::size_t(kernel_index)]->pointer_alignment);
}

void check_alignment(const Execution& execution, const Tensors& tensors) {
  const ForwardKernel& kernel = *table()[std::size_t(execution.kernel_index)];
  const core::NamedTensor read[] = {
      {"query", &tensors.query}, {"key", &tensors.key}, {"value", &tensors.value}};
  for (const core::NamedTensor& named : read) {
    const TensorView& tensor = *named.tensor;
    const auto past =
        reinterpret_cast<std::uintptr_t>(tensor.data()) % std::uintptr_t(kernel.pointer_alignment);
    if (!tensor.present() || tensor.empty() || past == 0) continue;
    throw Error(ErrorCode::misaligned,
                std::string(named.name) + " starts " + std::to_string(past) +
                    " bytes past a multiple of " + std::to_string(kernel.pointer_alignment) + ": " +
                    kernel.candidate.name +
                    ", which the plan chose, reads whole multiples; plan with this pointer to get "
                    "a kernel that takes it");
  }
}

void read_back(void* to, const void* from, std::size_t bytes, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  require_success(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, on),
                  "reading a side tensor");
  require_success(cudaStreamSynchronize(on), "waiting for a side tensor");
}

bool is_capturing(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  require_success(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status),
                  "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void run(const Execution& execution, const Prepared& prepared, const Tensors& tensors,
         void* workspace, void* stream) {
  const auto& plan = static_cast<const ForwardPlan&>(prepared);
  const CurrentDevice current(plan.device());
  plan.check_page_ids(execution, tensors);
  const ForwardLaunch launch = plan.bind(execution, tensors, workspace);
  plan.enqueue_lengths(launch, stream);
  if (execution.geometry.lengths_on_device && checks_values()) check_device_values(plan, stream);
  plan.enqueue_forward(launch, stream);
}

}  // namespace tilefold::cuda
