// Kernels that were compiled for a formula's type, as the library is told of them. Written for
// instantiate.cuh; programs include that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <typeinfo>

#include "tilefold/score/side_array.hpp"
#include "tilefold/tensor_view.hpp"

namespace tilefold::cuda {

/// Makes a device's copies of what a functor reads, and puts their addresses in its place. A
/// functor lists its side tensors in
///
///   template <class Visit> void side_tensors(const Visit& visit) { visit(ids); visit(table); }
class SideTensors {
 public:
  virtual ~SideTensors() = default;

  /// [batch, positions], or one row for all sequences.
  void operator()(score::Lookup& lookup) const;
  void operator()(score::Table& table) const;
  /// `count` elements, read as they are.
  void operator()(const float*& elements, long long count) const;
  void operator()(const int*& elements, long long count) const;
  /// Of a formula built at run time, with its cells; `given` may lie on the device already.
  void operator()(score::SideArray<int>& array, const TensorView& given) const;
  void operator()(score::SideArray<float>& array, const TensorView& given) const;

  virtual int batch() const = 0;
  virtual int query_heads() const = 0;

 protected:
  /// `bytes` of host memory on the device, until the plan is gone.
  virtual void* copy(const void* host, std::size_t bytes) const = 0;
  /// `bytes` of the device's memory, likewise.
  virtual void* space(std::size_t bytes) const = 0;
  /// Fills the padded rows and the cells of an array in space() from values on the device, on the
  /// stream of the run.
  virtual void gather(const score::SideArray<int>& array, const TensorView& given) const = 0;
  virtual void gather(const score::SideArray<float>& array, const TensorView& given) const = 0;

 private:
  template <class T> const T* padded(const T* rows, long long stride, int count, int size) const;
  template <class T> void copy_array(score::SideArray<T>& array, const TensorView& given) const;
};

/// One kernel of the forward.
struct CompiledForward {
  static constexpr std::size_t most_params_bytes = 4096;
  std::string name;            ///< of the formula
  const std::type_info* mask;  ///< functors as Mask and ScoreChange hold them
  const std::type_info* change;
  DType dtype;
  int shape;  ///< row of the table of tiles, kernels/sm90/forward/registry.hpp
  const void* function;
  int shared_bytes;
  /// Of the kernel's one parameter: where the first visible key of each sequence and the formula
  /// lie in it.
  std::size_t first_keys_at, formula_at, formula_bytes;
  /// Writes the formula with its side tensors on the device. Null functors are default ones.
  void (*write)(void* formula, const void* mask, const void* change, const SideTensors& tensors);
  bool plain = false;  ///< compiled at run time for a problem that asks for no more
};

/// From the start of a program on, before its first plan: throws
/// Error(ErrorCode::conflicting_argument) later, and for a second kernel of the same types, dtype
/// and shape.
void register_forward(CompiledForward kernel);

}  // namespace tilefold::cuda
