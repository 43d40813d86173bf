#include "cuda/jit/forward.hpp"

#include <filesystem>
#include <system_error>

#include "cuda/jit/compile_log.hpp"
#include "cuda/jit/forward_layout.hpp"
#include "tilefold/attention.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda::jit {

namespace {

/// How a family's kernel is named and found.
struct FamilyText {
  const char *space, *headers, *kernel, *tiles;
};
FamilyText text_of(Family family) {
  if (family == Family::sm80)
    return {"sm80", "cuda/kernels/sm80", "compiled_forward_kernel", "changed_tiles"};
  return {"sm90", "cuda/kernels/sm90/forward", "forward_kernel", "compiled_tiles"};
}
/// What the log calls the texts of a formula.
constexpr const char *formula_files = "options.", *mask_file = "options.mask",
                     *change_file = "options.score";

std::size_t rounded_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// CompiledFormula<Mask, Change>, as every compiler of the platform lays it out.
struct FormulaLayout {
  std::size_t change_at, bytes, alignment;

  FormulaLayout(const score::FormulaCode& mask, const score::FormulaCode& change)
      : change_at(rounded_up(mask.size, change.alignment)),
        alignment(score::larger(mask.alignment, change.alignment)) {
    bytes = rounded_up(change_at + change.size, alignment);
  }
};

/// "namespace mask_formula { definitions }", and "using Mask = ...;" to follow it.
std::string definitions_in(const char* space, const char* file, const score::FormulaCode& code) {
  if (code.definitions.empty()) return {};
  return std::string("namespace tilefold::score::") + space + " {\n#line 1 \"" + file + "\"\n" +
         code.definitions + "\n}\n";
}
std::string alias(const char* name, const char* space, const score::FormulaCode& code) {
  return std::string("using ") + name + " = " +
         (code.definitions.empty()
              ? code.type
              : std::string("::tilefold::score::") + space + "::" + code.type) +
         ";\n";
}

std::string asserted(const std::string& what, std::size_t value) {
  return "static_assert(" + what + " == " + std::to_string(value) + ");\n";
}
/// __INTADDR__: what the compiler's own offsetof is made of; NVRTC has no <cstddef>.
std::string offset(const char* type, const char* member) {
  return std::string("__INTADDR__(&static_cast<") + type + "*>(nullptr)->" + member + ")";
}

std::string assertions(const ForwardRequest& r) {
  const FormulaLayout formula(r.mask, r.change);
  const ForwardLayout kernel = forward_layout(r.shape, formula.alignment);
  const bool sm90 = r.shape.family == Family::sm90;
  return "static_assert(score::MaskFunctor<Mask>, \"options.mask has no keep(q, k, at)\");\n"
         "static_assert(score::ChangeFunctor<Change>, "
         "\"options.score has no change(s, q, k, at)\");\n" +
         asserted("sizeof(Mask)", r.mask.size) + asserted("alignof(Mask)", r.mask.alignment) +
         asserted("sizeof(Change)", r.change.size) +
         asserted("alignof(Change)", r.change.alignment) +
         asserted("sizeof(Compiled)", formula.bytes) + asserted(offset("Compiled", "mask"), 0) +
         asserted(offset("Compiled", "change"), formula.change_at) +
         (sm90 ? asserted(offset("Params", "first_keys"), kernel.first_keys_at) : std::string()) +
         asserted(offset("Params", "formula"), kernel.formula_at) +
         asserted(sm90 ? "SharedPlan<Chosen>::bytes" : "Chosen::value.shared_bytes()",
                  std::size_t(kernel.shared_bytes));
}

/// All that the kernel follows from. Libraries of one version differ where their sizes do.
std::string key_of(const Translation& t, const Nvrtc& compiler) {
  std::error_code unknown;
  std::string key = std::string("tilefold ") + version() + ", sources " +
                    kernel_sources_hash().text() + "\nNVRTC " + compiler.version() + ", " +
                    std::to_string(std::filesystem::file_size(compiler.path(), unknown)) +
                    " bytes\n" + t.architecture;
  for (const char* option : Nvrtc::options()) key += std::string(" ") + option;
  return key + "\n" + t.kernel + "\n" + t.source;
}

Cubin compile(const Translation& translation, const Nvrtc& compiler) {
  Compilation made = compiler.compile(translation, kernel_sources());
  if (made.cubin) return std::move(*made.cubin);
  throw Error(ErrorCode::invalid_argument,
              "the formula does not compile: " + errors_in(made.log, formula_files));
}

void require_layout(const score::FormulaCode& code, const char* file) {
  const bool power = code.alignment != 0 && (code.alignment & (code.alignment - 1)) == 0;
  if (power && code.alignment <= most_alignment && code.size != 0 &&
      code.size % code.alignment == 0)
    return;
  throw Error(ErrorCode::invalid_argument,
              std::string(file) + " has arguments of " + std::to_string(code.size) +
                  " bytes on multiples of " + std::to_string(code.alignment) +
                  ": a functor's size is a multiple of its alignment, which is 1, 2, 4, 8 or 16");
}

}  // namespace

Translation forward_translation(const ForwardRequest& r) {
  require_layout(r.mask, mask_file);
  require_layout(r.change, change_file);
  const FamilyText family = text_of(r.shape.family);
  const std::string folder = std::string("#include \"") + family.headers,
                    space = std::string("tilefold::cuda::") + family.space;
  std::string source = folder + "/kernel.cuh\"\n" + folder + "/registry.hpp\"\n";
  source +=
      "#include \"tilefold/score/operations.hpp\"\n"
      "#include \"tilefold/score/side_array.hpp\"\n";
  source += definitions_in("mask_formula", mask_file, r.mask);
  source += definitions_in("change_formula", change_file, r.change);
  source += "#line 1 \"layout\"\nnamespace " + space + "::at_run_time {\n";
  source += alias("Mask", "mask_formula", r.mask) + alias("Change", "change_formula", r.change);
  source += std::string("using Compiled = CompiledFormula<Mask, Change>;\n") +
            "using Chosen = CompiledChoice<config_of(HalfType::" +
            (r.shape.type == HalfType::bf16 ? "bf16" : "f16") + ", " + space +
            "::Formula::compiled, " + family.tiles + "[" + std::to_string(r.shape.row) + "]" +
            (r.shape.plain ? ", true" : "") + "), Compiled>;\n" + "using Params = " +
            (r.shape.family == Family::sm90 ? "ParamsOf<Chosen>" : "CompiledParams<Compiled>") +
            ";\n";
  source += assertions(r) + "}\n";
  return {source, space + "::" + family.kernel + "<" + space + "::at_run_time::Chosen>",
          r.architecture};
}

JitForward compile_forward(const ForwardRequest& request, const Nvrtc& compiler,
                           KernelCache& cache) {
  if (!compiler.found()) throw Error(ErrorCode::unsupported, compiler.absence());
  const Translation translation = forward_translation(request);
  Found found =
      cache.get(key_of(translation, compiler), [&] { return compile(translation, compiler); });
  const FormulaLayout formula(request.mask, request.change);
  const ForwardLayout kernel = forward_layout(request.shape, formula.alignment);
  return {std::move(found.cubin), found.origin,      found.seconds, kernel.shared_bytes,
          kernel.first_keys_at,   kernel.formula_at, formula.bytes, formula.change_at};
}

}  // namespace tilefold::cuda::jit
