// A formula as C++ text, for backends that compile it at run time: a node of a mask or of a score
// change that is also a CodeSource (found by dynamic_cast) says what its functor is called, how it
// is defined, and what its arguments are.
//
//   class Dilated final : public MaskNode, public CodeSource {
//     FormulaCode code() const override {
//       return {"struct Dilated { int step; template <class N> TILEFOLD_HD auto keep(N q, N k,
//       Place
//                at) const { ... } };", "Dilated", sizeof(int), alignof(int)};
//     }
//     void write_arguments(void* bytes, const DeviceCopies&) const override {
//       std::memcpy(bytes, &step_, sizeof step_);
//     }
//   };
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tilefold/formula.hpp"
#include "tilefold/score/side_array.hpp"

namespace tilefold::score {

/// A functor in C++. Two formulas of equal code are one kernel: arguments are data, not text.
struct FormulaCode {
  /// At namespace scope, in a namespace of its own inside tilefold::score; includes nothing.
  std::string definitions;
  /// What the definitions call the functor's type; or, where they are empty, a type named from the
  /// global namespace on: "::tilefold::score::Causal". An aggregate, trivially copyable.
  std::string type;
  std::size_t size = 1, alignment = 1;  // of the type, in bytes; the alignment at most 16
  /// Queries of a block, where the formula reads q // n: tiles of whole blocks are cut less. 0
  /// where it does not.
  int query_block = 0;
  /// Of a formula that expressions or a text build; 0: C++ text, whose length tells nothing.
  int operations = 0;
};

/// Makes a device's copies of what a functor reads, and puts their addresses in its place; as
/// score::visit_side_tensors() asks it to.
class DeviceCopies {
 public:
  virtual ~DeviceCopies() = default;
  /// [batch, positions], or one row for all sequences.
  virtual void operator()(Lookup& lookup) const = 0;
  virtual void operator()(Table& table) const = 0;
  /// `count` elements, read as they are.
  virtual void operator()(const float*& elements, long long count) const = 0;
  virtual void operator()(const int*& elements, long long count) const = 0;
  /// A tensor of a run-time formula, its values in padded rows (padded_element) and its cells.
  /// `given`: the tensor as it was given; where it lies on a device, the array has only its shape.
  virtual void operator()(SideArray<int>& array, const TensorView& given) const = 0;
  virtual void operator()(SideArray<float>& array, const TensorView& given) const = 0;
  virtual int batch() const = 0;
  virtual int query_heads() const = 0;
};

class CodeSource {
 public:
  virtual ~CodeSource() = default;
  virtual FormulaCode code() const = 0;
  /// Writes the functor, `code().size` bytes, its side tensors where `tensors` puts them. Bytes of
  /// padding may stay as they are.
  virtual void write_arguments(void* bytes, const DeviceCopies& tensors) const = 0;
};

/// The code of a mask or a score change: a node's own, a built-in's, or both joined. Null pointers
/// are Everything and Unchanged. Null where some part is a C++ functor, of which there is no text,
/// or additive_bias(). Lives as long as the node.
std::shared_ptr<const CodeSource> code_of(const MaskNode* mask);
std::shared_ptr<const CodeSource> code_of(const ScoreNode* change);

/// Whether some part of it has code of its own, which no backend can read as data.
bool has_code(const MaskNode* mask);
bool has_code(const ScoreNode* change);

}  // namespace tilefold::score
