#include "cuda/launch/formula_data.hpp"

#include <algorithm>

#include "tilefold/error.hpp"

namespace tilefold::cuda {

namespace {

using MaskKind = score::MaskDescription::Kind;

constexpr const char* needs_compilation =
    " is code: a CUDA kernel runs it that is compiled for its type, ahead of time by "
    "tilefold/cuda/instantiate.cuh, or at run time from its text, or one that interprets it where "
    "expressions or a text build it (family any); the CPU backend runs it too";

/// The range of a causal mask, a window, or a conjunction of them; nothing for other masks.
std::optional<RangeMask> range_of(const score::MaskNode& mask) {
  const score::MaskDescription d = mask.describe();
  RangeMask range;
  switch (d.kind) {
    case MaskKind::everything: return range;
    case MaskKind::causal: range.high = 0; return range;
    case MaskKind::window:
      if (d.left >= 0) range.low = -d.left;
      if (d.right >= 0) range.high = d.right;
      return range;
    case MaskKind::both: {
      const auto a = range_of(*d.first), b = range_of(*d.second);
      if (!a || !b) return std::nullopt;
      return RangeMask{std::max(a->low, b->low), std::min(a->high, b->high)};
    }
    default: return std::nullopt;
  }
}

/// Whether a part of it says nothing but code. A formula may say what a built-in says: data then.
bool is_code(const score::MaskNode& mask) {
  const score::MaskDescription d = mask.describe();
  if (d.kind == MaskKind::code) return true;
  return (d.first != nullptr && is_code(*d.first)) || (d.second != nullptr && is_code(*d.second));
}

class MaskCompiler {
 public:
  MaskCompiler(std::string& reason, FormulaRest* rest) : reason_(reason), rest_(rest) {}

  /// Conjunctions at the top give their ranges to the range, code to the rest, all else to the
  /// program.
  bool add(const score::MaskNode& mask) {
    if (const auto range = range_of(mask)) {
      image_.data.range.low = std::max(image_.data.range.low, range->low);
      image_.data.range.high = std::min(image_.data.range.high, range->high);
      return true;
    }
    const score::MaskDescription d = mask.describe();
    if (d.kind == MaskKind::both) return add(*d.first) && add(*d.second);
    if (rest_ != nullptr && is_code(mask)) {
      rest_->masks.push_back(&mask);
      return true;
    }
    const bool joins = image_.data.program.count > 0;
    return emit(mask) && (!joins || push({MaskOp::both, 0, 0}, mask));
  }
  MaskImage take() { return std::move(image_); }

 private:
  bool emit(const score::MaskNode& mask) {
    const score::MaskDescription d = mask.describe();
    switch (d.kind) {
      case MaskKind::code:
        reason_ = "options.mask (" + mask.text() + ")" + needs_compilation;
        return false;
      case MaskKind::everything: return push({MaskOp::everything, 0, 0}, mask);
      case MaskKind::causal: return push({MaskOp::causal, 0, 0}, mask);
      case MaskKind::window: return push({MaskOp::window, d.left, d.right}, mask);
      case MaskKind::prefix: return table(MaskOp::prefix, d, mask);
      case MaskKind::document: return table(MaskOp::document, d, mask);
      case MaskKind::negated: return emit(*d.first) && push({MaskOp::negate, 0, 0}, mask);
      case MaskKind::both:
      case MaskKind::either:
        return emit(*d.first) && emit(*d.second) &&
               push({d.kind == MaskKind::both ? MaskOp::both : MaskOp::either, 0, 0}, mask);
    }
    return false;
  }
  bool table(MaskOp op, const score::MaskDescription& d, const score::MaskNode& mask) {
    MaskProgram& program = image_.data.program;
    if (program.tables_used == MaskProgram::max_tables) return too_large(mask);
    program.tables[program.tables_used] = *d.lookup;
    image_.table_sequences.push_back(d.sequences);
    return push({op, program.tables_used++, 0}, mask);
  }
  bool push(MaskInstruction instruction, const score::MaskNode& mask) {
    MaskProgram& program = image_.data.program;
    if (program.count == MaskProgram::max_instructions) return too_large(mask);
    program.instructions[program.count++] = instruction;
    return true;
  }
  bool too_large(const score::MaskNode& mask) {
    reason_ = "options.mask (" + mask.text() + ") has more than " +
              std::to_string(MaskProgram::max_instructions) + " terms or " +
              std::to_string(MaskProgram::max_tables) +
              " side tensors: CUDA kernels hold no more; the CPU backend runs it";
    return false;
  }

  std::string& reason_;
  FormulaRest* rest_;
  MaskImage image_{};
};

class StepList {
 public:
  StepList(std::string& reason, FormulaRest* rest) : reason_(reason), rest_(rest) {}

  void add_named(const Problem& problem) {
    const Tensors& t = problem.tensors;
    if (problem.options.softcap)
      steps_.push_back({ScoreStepKind::softcap, ReadAt::index, *problem.options.softcap});
    if (t.alibi_slopes.present())
      steps_.push_back({ScoreStepKind::alibi, ReadAt::position, 0, &t.alibi_slopes, true});
    if (t.bias.present()) steps_.push_back({ScoreStepKind::bias, ReadAt::index, 0, &t.bias, true});
  }
  bool add(const score::ScoreNode& change) {
    using Kind = score::ScoreDescription::Kind;
    const score::ScoreDescription d = change.describe();
    switch (d.kind) {
      case Kind::code: return add_code(change);
      case Kind::softcap:
        steps_.push_back({ScoreStepKind::softcap, ReadAt::index, d.cap});
        return true;
      case Kind::alibi:
        steps_.push_back({ScoreStepKind::alibi, ReadAt::position, 0, d.tensor});
        return true;
      case Kind::bias:
        steps_.push_back({ScoreStepKind::bias, ReadAt::position, 0, d.tensor});
        return true;
      case Kind::chain: return add(*d.first) && add(*d.second);
    }
    return false;
  }
  std::vector<ScoreStepImage> take() { return std::move(steps_); }

 private:
  bool add_code(const score::ScoreNode& change) {
    if (rest_ != nullptr)
      rest_->changes.push_back({&change, int(steps_.size())});
    else
      reason_ = "options.score (" + change.text() + ")" + needs_compilation;
    return rest_ != nullptr;
  }

  std::string& reason_;
  FormulaRest* rest_;
  std::vector<ScoreStepImage> steps_;
};

}  // namespace

std::optional<MaskImage> mask_image(const score::MaskNode* mask, std::string& reason,
                                    FormulaRest* rest) {
  MaskCompiler compiler(reason, rest);
  if (mask != nullptr && !compiler.add(*mask)) return std::nullopt;
  return compiler.take();
}

std::optional<std::vector<ScoreStepImage>> score_steps(const Problem& problem, std::string& reason,
                                                       FormulaRest* rest) {
  StepList list(reason, rest);
  list.add_named(problem);
  const score::ScoreNode* change = problem.options.score.node();
  if (change != nullptr && !list.add(*change)) return std::nullopt;
  std::vector<ScoreStepImage> steps = list.take();
  if (steps.size() > ForwardParams::max_steps) {
    reason = "the score passes through " + std::to_string(steps.size()) +
             " changes: CUDA kernels hold " + std::to_string(ForwardParams::max_steps) +
             "; the CPU backend runs it";
    return std::nullopt;
  }
  return steps;
}

std::optional<std::string> bias_refusal(const core::Geometry& geometry,
                                        const std::vector<ScoreStepImage>& steps) {
  for (const ScoreStepImage& step : steps)
    if (geometry.lengths_on_device && step.kind == ScoreStepKind::bias && !step.of_problem)
      return "options.score reads a bias at positions: with lengths on a device its extent cannot "
             "be checked";
  return std::nullopt;
}

ElementType element_type(DType type) {
  switch (type) {
    case DType::f32: return ElementType::f32;
    case DType::f16: return ElementType::f16;
    case DType::bf16: return ElementType::bf16;
    case DType::e4m3: return ElementType::e4m3;
    case DType::e5m2: return ElementType::e5m2;
    default: break;
  }
  throw Error(ErrorCode::unsupported,
              std::string("no CUDA kernel reads elements of type ") + name(type));
}

ScoreStep step_of(const ScoreStepImage& image) {
  ScoreStep step{};
  step.kind = image.kind;
  step.at = image.at;
  step.cap = float(image.cap);
  if (image.tensor == nullptr) return step;
  const TensorView& t = *image.tensor;
  step.type = element_type(t.dtype());
  if (image.kind == ScoreStepKind::alibi) {
    step.head = t.stride(t.rank() - 1);
    step.batch = t.rank() == 2 ? t.stride(0) : 0;
  } else {
    step.batch = t.stride(0);
    step.head = t.stride(1);
    step.query = t.stride(2);
    step.key = t.stride(3);
  }
  return step;
}

}  // namespace tilefold::cuda
