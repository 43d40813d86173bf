// The CUDA backend of a build without CUDA: no kernels, and nothing can reach the rest.
#include "cuda/backend.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda {

namespace {
[[noreturn]] void refuse() {
  throw Error(ErrorCode::unsupported, "this build has no CUDA backend");
}
}  // namespace

std::span<const planner::Candidate> kernels() { return {}; }
Presence presence() { return {{}, "this build has no CUDA backend"}; }
Card card(Device) { refuse(); }
void require_device(Device) { refuse(); }
planner::Schedule make_schedule(const core::Geometry&, int, const Problem&) { refuse(); }
std::size_t workspace_bytes(const Execution&) { refuse(); }
std::shared_ptr<Prepared> prepare(const Execution&) { refuse(); }
void check_alignment(const Execution&, const Tensors&) { refuse(); }
std::size_t input_alignment(int) { refuse(); }
void check_pointers(const core::PlannedTensors&, const core::TensorPointers&) { refuse(); }
bool is_capturing(void*) { refuse(); }
void run(const Execution&, const Prepared&, const Tensors&, void*, void*) { refuse(); }

}  // namespace tilefold::cuda
