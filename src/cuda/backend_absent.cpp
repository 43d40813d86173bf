// The CUDA backend of a build without CUDA: no kernels, and nothing can reach the rest.
#include "cuda/backend.hpp"
#include "cuda/formula_compiler.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda {

namespace {
constexpr const char* absence = "this build has no CUDA backend";
[[noreturn]] void refuse() { throw Error(ErrorCode::unsupported, absence); }
}  // namespace

std::span<const planner::Candidate> kernels() { return {}; }
Presence presence() { return {{}, absence}; }
Card card(Device) { refuse(); }
void require_device(Device) { refuse(); }
planner::Schedule make_schedule(const core::Geometry&, int, const Problem&) { refuse(); }
std::shared_ptr<const RunTimeKernel> compile_formula(int, const core::Geometry&,
                                                     const planner::Schedule&, const Problem&) {
  refuse();
}
std::string origin_of(const RunTimeKernel&) { refuse(); }
bool interprets(int) { refuse(); }
std::string interpretation_of(const Problem&) { refuse(); }
FormulaCompiler formula_compiler() { return {{}, {}, absence}; }
FormulaCache formula_cache() { return {{}, absence, 0, 0, 0}; }
FormulaCache clear_formula_cache() { return formula_cache(); }
FormulaCounts formula_counts() { return {}; }
std::size_t workspace_bytes(const Execution&) { refuse(); }
std::shared_ptr<Prepared> prepare(const Execution&) { refuse(); }
void check_alignment(const Execution&, const Tensors&) { refuse(); }
std::size_t input_alignment(int) { refuse(); }
void check_pointers(const core::PlannedTensors&, const core::TensorPointers&) { refuse(); }
void read_back(void*, const void*, std::size_t, void*) { refuse(); }
bool is_capturing(void*) { refuse(); }
void run(const Execution&, const Prepared&, const Tensors&, void*, void*) { refuse(); }

}  // namespace tilefold::cuda
