#include "cuda/launch/run_time.hpp"

#include <fmt/format.h>

#include "cuda/launch/compiled.hpp"
#include "cuda/launch/interpreted.hpp"
#include "cuda/runtime/device.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda {

namespace {

/// What a node of a formula asks for, from what a plan copies with.
class Copies final : public score::DeviceCopies {
 public:
  explicit Copies(const SideTensors& tensors) : tensors_(tensors) {}
  void operator()(score::Lookup& lookup) const override { tensors_(lookup); }
  void operator()(score::Table& table) const override { tensors_(table); }
  void operator()(const float*& elements, long long count) const override {
    tensors_(elements, count);
  }
  void operator()(const int*& elements, long long count) const override {
    tensors_(elements, count);
  }
  void operator()(score::SideArray<int>& array, const TensorView& given) const override {
    tensors_(array, given);
  }
  void operator()(score::SideArray<float>& array, const TensorView& given) const override {
    tensors_(array, given);
  }
  int batch() const override { return tensors_.batch(); }
  int query_heads() const override { return tensors_.query_heads(); }

 private:
  const SideTensors& tensors_;
};

/// Machine code of 8.0 runs on 8.x only; wgmma is in sm_90a alone. Without a device: of the card
/// that plans are made for, an H200.
std::string architecture(jit::Family family, int device) {
  if (family == jit::Family::sm90) return "sm_90a";
  const DeviceProperties* p = device_properties(device);
  return p == nullptr ? "sm_90" : fmt::format("sm_{}{}", p->major, p->minor);
}

std::string no_text(const char* argument, const std::string& formula) {
  return fmt::format("{} ({}) has a part without text for NVRTC: a C++ functor, or additive_bias",
                     argument, formula);
}

/// Of a kernel that was compiled and is not in the disk cache.
std::string unstored() {
  const std::string& folder = jit::KernelCache::of_process().disk().settings().directory;
  return fmt::format("; not kept for the next process: {} (TILEFOLD_CACHE_DIR names a folder)",
                     folder.empty() ? "there is no folder for it" : folder + " cannot be written");
}

/// Above it a compilation takes half a minute and more, and its kernel spills tens of kilobytes a
/// thread (150 to 180 operations: 30 to 90 s, 50 to 117 KB).
constexpr int most_operations = 100;

std::optional<std::string> size_refusal(const core::Geometry& geometry, const Problem& problem) {
  const Options& o = problem.options;
  const int operations = score::code_of(o.mask.node())->code().operations +
                         score::code_of(o.score.node())->code().operations;
  if (operations <= most_operations || interpreter_refusal(geometry, problem)) return std::nullopt;
  return fmt::format(
      "the formula has {} operations: above {} NVRTC takes half a minute and more for a kernel "
      "that spills its registers, and the formula is interpreted",
      operations, most_operations);
}

}  // namespace

std::optional<std::string> run_time_refusal(const core::Geometry& geometry,
                                            const Problem& problem) {
  const Options& o = problem.options;
  if (!score::has_code(o.mask.node()) && !score::has_code(o.score.node()))
    return "NVRTC compiles formulas that come as text: this one does not";
  if (score::code_of(o.mask.node()) == nullptr) return no_text("options.mask", o.mask.text());
  if (score::code_of(o.score.node()) == nullptr) return no_text("options.score", o.score.text());
  if (auto reason = beside_refusal(geometry, problem, o.score.node() != nullptr)) return reason;
  if (auto reason = size_refusal(geometry, problem)) return reason;
  if (!jit::nvrtc().found()) return jit::nvrtc().absence();
  return std::nullopt;
}

std::shared_ptr<const RunTimeKernel> compile_formula(const ForwardKernel& kernel,
                                                     const core::Geometry& geometry,
                                                     const planner::Schedule& schedule,
                                                     const Problem& problem) {
  auto made = std::make_shared<RunTimeKernel>();
  made->mask = score::code_of(problem.options.mask.node());
  made->change = score::code_of(problem.options.score.node());
  jit::ForwardShape shape = *kernel.at_run_time;
  shape.plain = kernel.is_plain != nullptr && kernel.is_plain(kernel, geometry, schedule, problem);
  made->family = shape.family == jit::Family::sm90 ? "sm90" : "sm80";
  made->code =
      jit::compile_forward({made->mask->code(), made->change->code(), shape,
                            architecture(shape.family, problem.tensors.query.device().index)},
                           jit::nvrtc(), jit::KernelCache::of_process());
  made->row = *kernel.compiled;
  made->row.shared_bytes = made->code.shared_bytes;
  made->row.first_keys_at = made->code.first_keys_at;
  made->row.formula_at = made->code.formula_at;
  made->row.formula_bytes = made->code.formula_bytes;
  made->row.plain = shape.plain;
  if (made->row.formula_at + made->row.formula_bytes > CompiledForward::most_params_bytes)
    throw Error(ErrorCode::unsupported,
                fmt::format("the formula has {} bytes of arguments: a kernel's parameters end at 4 "
                            "KB, large data belongs into side tensors",
                            made->row.formula_bytes));
  return made;
}

std::vector<ForwardKernel> kernels_of(const std::vector<RunTimeRow>& rows,
                                      ForwardKernel (*kernel_of)(const RunTimeRow&)) {
  std::vector<ForwardKernel> kernels;
  for (const RunTimeRow& row : rows) kernels.push_back(kernel_of(row));
  return kernels;
}

std::vector<unsigned char> formula_image(const RunTimeKernel& kernel, const SideTensors& tensors) {
  std::vector<unsigned char> bytes(kernel.row.formula_bytes);
  const Copies copies(tensors);
  kernel.mask->write_arguments(bytes.data(), copies);
  kernel.change->write_arguments(bytes.data() + kernel.code.change_at, copies);
  return bytes;
}

std::string origin_of(const RunTimeKernel& kernel) {
  const jit::JitForward& code = kernel.code;
  std::string text;
  switch (code.origin) {
    case jit::Origin::compiled:
    case jit::Origin::unstored:
      text = fmt::format("compiled at run time by NVRTC {}, {:.1f} s", jit::nvrtc().version(),
                         code.seconds);
      if (code.origin == jit::Origin::unstored) text += unstored();
      break;
    case jit::Origin::memory: text = "compiled earlier by this process"; break;
    case jit::Origin::disk:
      text = "from the disk cache, " + jit::KernelCache::of_process().disk().settings().directory;
      break;
  }
  text = std::string(kernel.family) + (kernel.row.plain ? " plain forward " : " forward ") + text;
  const int spilled = jit::spilled_bytes(code.cubin->report);
  return spilled > 0 ? fmt::format("{}; {} bytes of registers spilled a thread", text, spilled)
                     : text;
}

}  // namespace tilefold::cuda
