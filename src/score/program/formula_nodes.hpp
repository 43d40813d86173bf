// Programs as the masks and score changes of a problem.
#pragma once

#include <mutex>

#include "score/program/code.hpp"
#include "score/program/range_of.hpp"
#include "tilefold/formula.hpp"

namespace tilefold::score {

/// A program's code, written when it is first asked for: a plan asks once a kernel.
class WrittenCode {
 public:
  const FormulaCode& of(const ScoreProgram& program, Purpose purpose) const {
    std::call_once(written_, [&] { code_ = code_of_program(program, purpose); });
    return code_;
  }

 private:
  mutable std::once_flag written_;
  mutable FormulaCode code_;
};

class ProgramMask final : public MaskNode, public CodeSource {
 public:
  explicit ProgramMask(ScoreProgram program)
      : program_(std::move(program)), description_(description_of(program_.program())) {}
  MaskDescription describe() const override { return description_; }
  void keep(const TilePositions& tile, unsigned char* flags, int row) const override;
  Truth classify(Interval queries, Interval keys, const Place& place) const override;
  std::string text() const override;
  void require_fit(const Extent& extent) const override;
  void each_side_tensor(const VisitSideTensor& visit) const override {
    for (const auto& tensor : program_.program().tensors) visit(*tensor);
  }
  void name_blunt_terms(const TilePositions& tile, const NameTerm& name) const override;
  unsigned revision() const override { return program_.program().revision(); }
  const TensorView* device_tensor() const override { return program_.program().device_tensor(); }
  FormulaCode code() const override { return code_.of(program_.program(), Purpose::mask); }
  void write_arguments(void* bytes, const DeviceCopies& tensors) const override {
    write_program_arguments(program_, bytes, tensors);
  }
  const BoundProgram& program() const { return program_; }

 private:
  BoundProgram program_;
  MaskDescription description_;
  WrittenCode code_;
};

class ProgramChange final : public ScoreNode, public CodeSource {
 public:
  explicit ProgramChange(ScoreProgram program) : program_(std::move(program)) {}
  void change(const TilePositions& tile, float* scores, int row) const override;
  void change(const TilePositions& tile, double* scores, int row) const override;
  void differentiate(const TilePositions& tile, double* scores, double* slopes,
                     int row) const override;
  std::string text() const override;
  void require_fit(const Extent& extent) const override;
  unsigned revision() const override { return program_.program().revision(); }
  const TensorView* device_tensor() const override { return program_.program().device_tensor(); }
  FormulaCode code() const override { return code_.of(program_.program(), Purpose::score_change); }
  void write_arguments(void* bytes, const DeviceCopies& tensors) const override {
    write_program_arguments(program_, bytes, tensors);
  }
  const BoundProgram& program() const { return program_; }

 private:
  BoundProgram program_;
  WrittenCode code_;
};

}  // namespace tilefold::score
