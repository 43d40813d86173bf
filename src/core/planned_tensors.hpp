// What run() asks of its tensors first. All that follows from the plan's description is worked out
// once, by plan(): most runs differ from it in pointers alone, and learn so in a few comparisons.
//
//   const TensorPointers given = pointers_to(tensors);
//   if (!planned.describes(tensors, given)) check_same_description(problem.tensors, tensors);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/each_tensor.hpp"

namespace tilefold::core {

/// A tensor that a plan has.
struct PlannedTensor {
  std::size_t index;  // in each_tensor()
  const char* name;
  TensorView view;            // its pointer means nothing
  TensorView::ByteSpan span;  // from its pointer
  bool empty;
  std::uintptr_t low_bits;          // 0 in its pointer where it is aligned
  std::vector<std::byte> contents;  // host lengths: what plan() read; empty for other tensors
};

/// Answers of true are final. One of false may come of a difference that means nothing, as of the
/// stride of an axis of one element: the check named with each takes longer and decides.
class PlannedTensors {
 public:
  PlannedTensors() = default;
  /// `input_alignment`: bytes that query, key and value must start on, a power of two.
  PlannedTensors(const Tensors& planned, std::size_t input_alignment);

  /// check_same_description().
  bool describes(const Tensors& tensors, const TensorPointers& given) const;
  /// check_memory(), and the alignment of inputs. Of tensors with the plan's description.
  bool are_usable_and_apart(const TensorPointers& given) const;
  /// check_same_lengths(). Of usable tensors with the plan's description.
  bool have_same_lengths(const TensorPointers& given) const;

  /// Those that the plan has, in the order of each_tensor().
  std::span<const PlannedTensor> present() const { return present_; }

 private:
  std::vector<PlannedTensor> present_;
  std::uint32_t present_bits_ = 0;  // by index
  std::size_t outputs_ = 0;         // the first of present_
  Granularity query_per_{}, key_per_{}, value_per_{};
  bool separate_outputs_ = true;  // no output shares memory with itself
  bool known_lengths_ = true;     // `contents` holds all that plan() read
};

}  // namespace tilefold::core
