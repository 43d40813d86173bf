// A side tensor as formulas hold it: its values, and the cells that intervals read.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "score/program/operation.hpp"
#include "tilefold/score/side_array.hpp"
#include "tilefold/tensor_view.hpp"

namespace tilefold::score {

/// The cells of a tensor of T for one set of blocked axes, and the array that reads both. Where
/// values lie on a device, `array.values` is null and there are no cells.
template <class T> struct Cells {
  SideArray<T> array{};
  std::vector<T> low{}, high{};
  void rebuild();
};

/// The shape of the cells: everything of the array but its pointers.
template <class T> SideArray<T> shape_of_cells(const TensorView& values, unsigned blocked);
/// Entries of all levels together.
template <class T> std::int64_t cell_count(const SideArray<T>& array);

struct SideTensorState {
  std::string name;
  TensorView values;            // as given; on the host or on a device
  Kind kind;                    // integer, real, or truth where the entries are boolean
  std::vector<int> integers{};  // copies, of dtypes that arrays do not read in place
  std::vector<float> reals{};
  unsigned revision = 0;  // counts update()

  bool on_host() const { return values.device() == Device::cpu(); }
  bool holds_reals() const { return kind == Kind::real; }
  /// Bounds for formulas that index these axes by queries or keys; kept up to date by update().
  std::shared_ptr<const Cells<int>> integer_cells(unsigned blocked);
  std::shared_ptr<const Cells<float>> real_cells(unsigned blocked);
  void take(const TensorView& given);
  /// Of a tensor on a device: its entries as they are now, on the host, in its own strides. Until
  /// the next update() its bounds are known.
  void show(const void* entries);

 private:
  void renew_cells();
  std::mutex mutex_{};  // of the lists
  std::vector<std::weak_ptr<Cells<int>>> integer_lists_{};
  std::vector<std::weak_ptr<Cells<float>>> real_lists_{};
  template <class T>
  std::shared_ptr<const Cells<T>> cells(std::vector<std::weak_ptr<Cells<T>>>& lists,
                                        unsigned blocked);
  void point(Cells<int>& cells) const;
  void point(Cells<float>& cells) const;
};

}  // namespace tilefold::score
