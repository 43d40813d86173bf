#include "cuda/launch/interpreted.hpp"

#include <fmt/format.h>

#include "cuda/backend.hpp"
#include "cuda/jit/nvrtc.hpp"
#include "cuda/launch/forward_kernel.hpp"
#include "score/code_source.hpp"
#include "score/program/formula_nodes.hpp"
#include "score/program/instructions.hpp"
#include "score/program/joined_program.hpp"

namespace tilefold::cuda {

namespace {

/// A formula's programs: what its descriptions leave over.
struct Programs {
  struct Change {
    const score::ScoreProgram* program;
    int steps_before;
  };
  std::optional<score::ScoreProgram> mask;
  std::vector<Change> changes;
  std::vector<ScoreStepImage> steps;
};

std::string is_code(const char* argument, const std::string& formula) {
  return fmt::format(
      "{} ({}) has a part that is C++ code: it interprets formulas that expressions or texts build",
      argument, formula);
}

std::optional<Programs> programs_of(const Problem& problem, std::string& reason) {
  const Options& o = problem.options;
  Programs programs;
  FormulaRest rest;
  if (!mask_image(o.mask.node(), reason, &rest)) return std::nullopt;
  auto steps = score_steps(problem, reason, &rest);
  if (!steps) return std::nullopt;
  programs.steps = std::move(*steps);
  if (!rest.masks.empty()) {
    programs.mask = score::joined_program(rest.masks);
    if (!programs.mask) reason = is_code("options.mask", o.mask.text());
    if (!programs.mask) return std::nullopt;
  }
  for (const FormulaRest::Change& change : rest.changes) {
    const auto* node = dynamic_cast<const score::ProgramChange*>(change.node);
    if (node == nullptr) reason = is_code("options.score", o.score.text());
    if (node == nullptr) return std::nullopt;
    programs.changes.push_back({&node->program().program(), change.steps_before});
  }
  return programs;
}

bool has_too_many_values(const score::ScoreProgram& program) {
  return !score::instructions_of(program);
}
std::string too_many_values(const char* argument, const std::string& formula) {
  return fmt::format("{} ({}) needs more than {} values at a time: the interpreter holds no more",
                     argument, formula, score::Instruction::most_values);
}

std::optional<std::string> size_refusal(const Programs& programs, const Options& options) {
  if (programs.mask && has_too_many_values(*programs.mask))
    return too_many_values("options.mask", options.mask.text());
  for (const Programs::Change& change : programs.changes)
    if (has_too_many_values(*change.program))
      return too_many_values("options.score", options.score.text());
  if (programs.changes.size() > any::FormulaPrograms::max_changes)
    return fmt::format("options.score chains {} formulas: the interpreter holds {}",
                       programs.changes.size(), any::FormulaPrograms::max_changes);
  return std::nullopt;
}

/// A vector on the device. Its elements consist of words of 4 bytes.
template <class T> const T* copied(const std::vector<T>& elements, const SideTensors& tensors) {
  static_assert(sizeof(T) % sizeof(int) == 0);
  if (elements.empty()) return nullptr;
  const auto* words = reinterpret_cast<const int*>(elements.data());
  tensors(words, static_cast<long long>(elements.size() * sizeof(T) / sizeof(int)));
  return reinterpret_cast<const T*>(words);
}

score::InstructionList uploaded(const score::ScoreProgram& program, const SideTensors& tensors) {
  const score::BoundProgram bound(program);
  std::vector<score::SideArray<int>> integers;
  std::vector<score::SideArray<float>> reals;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const score::SideTensorState& tensor = *program.tensors[i];
    if (tensor.holds_reals())
      tensors(reals.emplace_back(bound.reals(int(i))), tensor.values);
    else
      tensors(integers.emplace_back(bound.integers(int(i))), tensor.values);
  }
  const std::vector<score::Instruction> list = *score::instructions_of(program);
  return {copied(list, tensors), int(list.size()), copied(integers, tensors),
          copied(reals, tensors)};
}

}  // namespace

std::optional<std::string> interpreter_refusal(const core::Geometry& geometry,
                                               const Problem& problem) {
  const Options& o = problem.options;
  if (!score::has_code(o.mask.node()) && !score::has_code(o.score.node()))
    return "it interprets formulas that expressions or texts build: this one is none";
  std::string reason;
  const auto programs = programs_of(problem, reason);
  if (!programs) return reason;
  if (auto too_large = size_refusal(*programs, o)) return too_large;
  return bias_refusal(geometry, programs->steps);
}

any::FormulaPrograms formula_programs(const Problem& problem, const SideTensors& tensors) {
  std::string reason;
  const Programs programs = *programs_of(problem, reason);
  any::FormulaPrograms on_device{};
  if (programs.mask) on_device.mask = uploaded(*programs.mask, tensors);
  for (const Programs::Change& change : programs.changes)
    on_device.changes[on_device.change_count++] = {uploaded(*change.program, tensors),
                                                   change.steps_before};
  return on_device;
}

std::optional<any::FormulaPrograms> mask_programs(const Problem& problem,
                                                  const SideTensors& tensors) {
  const score::MaskNode* mask = problem.options.mask.node();
  if (mask == nullptr) return std::nullopt;
  const auto program = score::joined_program({mask});
  if (!program || has_too_many_values(*program)) return std::nullopt;
  any::FormulaPrograms on_device{};
  on_device.mask = uploaded(*program, tensors);
  return on_device;
}

std::string interpretation_of(const Problem& problem) {
  std::string reason;
  const Programs programs = *programs_of(problem, reason);
  std::size_t instructions = 0;
  if (programs.mask) instructions += score::instructions_of(*programs.mask)->size();
  for (const Programs::Change& change : programs.changes)
    instructions += score::instructions_of(*change.program)->size();
  std::string text =
      fmt::format("interpreted on the device, {} instructions an element", instructions);
  if (jit::nvrtc().found()) return text;
  return text + "; not compiled, for " + jit::nvrtc().absence();
}

}  // namespace tilefold::cuda
