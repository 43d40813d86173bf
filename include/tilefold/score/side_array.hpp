// A side tensor of a formula that was built at run time: any shape of up to four axes, read at
// integer indices, or at intervals of them through the least and largest value of cells.
//
//   int id = documents.at(batch, k);                       // an element
//   Interval ids = documents.at(Interval(batch), keys);    // bounds of all that a tile may read
//
// Indices outside an axis read its nearest entry: no element outside the tensor is ever read.
// Cells: level n joins 8^n neighbours along every blocked axis (those that queries or keys index;
// the others, batch and head say, keep their own entries). An interval reads the finest level of
// which it meets few cells, so that a question costs the same however large it is.
#pragma once

#include "tilefold/score/lookup.hpp"
#include "tilefold/score/span.hpp"

namespace tilefold::score {

/// What intervals read of a tensor of T.
template <class T> struct BoundsOf;
template <> struct BoundsOf<int> {
  using Type = Interval;
  TILEFOLD_HD static constexpr Interval of(int low, int high) { return {low, high}; }
  TILEFOLD_HD static constexpr Interval unknown() { return {-2147483647 - 1, 2147483647}; }
};
template <> struct BoundsOf<float> {
  using Type = Span;
  /// A cell that holds NaN has NaN bounds.
  TILEFOLD_HD static constexpr Span of(float low, float high) { return Span{low, high}.known(); }
  TILEFOLD_HD static constexpr Span unknown() { return Span::anything(); }
};

template <class T> struct LowHigh { T low, high; };
/// count[a] cells from first[a] on, along each axis.
template <int axes> struct CellRange { int first[axes], count[axes]; };
template <class T> struct SideArray;
template <class T, int axes> TILEFOLD_HD LowHigh<T> bounds_of_cells(const SideArray<T>& array,
                                                                    int level,
                                                                    const CellRange<axes>& cells);

template <class T> struct SideArray {
  static constexpr int max_rank = 4, max_levels = 10;
  static constexpr int fan_bits = 3;    // 8 cells of a level make one of the next
  static constexpr int most_cells = 3;  // of one axis, read for one interval
  using Bounds = typename BoundsOf<T>::Type;

  const T* values;              ///< null where they lie on another device: nothing is known
  const T *low, *high;          ///< of the cells, level by level, the last axis fastest
  long long stride[max_rank];   ///< of `values`
  long long begin[max_levels];  ///< of level 1, 2, ... in `low` and `high`
  int size[max_rank];
  int rank, levels;
  unsigned blocked;  ///< bit a: axis a has cells of several entries

  TILEFOLD_HD constexpr bool is_blocked(int axis) const { return (blocked >> axis & 1u) != 0; }
  TILEFOLD_HD constexpr int shift(int axis, int level) const {
    return is_blocked(axis) ? fan_bits * level : 0;
  }
  /// Cells of `axis` at `level`; level 0 are the elements.
  TILEFOLD_HD constexpr int cells(int axis, int level) const {
    return ((size[axis] - 1) >> shift(axis, level)) + 1;
  }
  TILEFOLD_HD constexpr int held(int axis, int index) const {
    return smaller(larger(index, 0), size[axis] - 1);  // no branch: it is the same for many
  }

  /// Where an element lies.
  TILEFOLD_HD constexpr long long element(const int* index) const {
    long long at = 0;
    for (int a = 0; a < rank; ++a) at += index[a] * stride[a];
    return at;
  }
  TILEFOLD_HD constexpr long long cells_of(int level) const {
    long long count = 1;
    for (int a = 0; a < rank; ++a) count *= cells(a, level);
    return count;
  }

  TILEFOLD_HD T at(int a) const { return loaded(values + along(0, a)); }
  TILEFOLD_HD T at(int a, int b) const { return loaded(values + (along(0, a) + along(1, b))); }
  TILEFOLD_HD T at(int a, int b, int c) const {
    return loaded(values + (along(0, a) + along(1, b) + along(2, c)));
  }
  TILEFOLD_HD T at(int a, int b, int c, int d) const {
    return loaded(values + (along(0, a) + along(1, b) + along(2, c) + along(3, d)));
  }

  /// Of a padded copy, whose last axis is contiguous.
  TILEFOLD_HD T at(Position a) const { return padded_element(values, a, size[0]); }
  TILEFOLD_HD T at(int a, Position b) const {
    return padded_element(values + along(0, a), b, size[1]);
  }
  TILEFOLD_HD T at(int a, int b, Position c) const {
    return padded_element(values + (along(0, a) + along(1, b)), c, size[2]);
  }
  TILEFOLD_HD T at(int a, int b, int c, Position d) const {
    return padded_element(values + (along(0, a) + along(1, b) + along(2, c)), d, size[3]);
  }

  TILEFOLD_HD Bounds at(Interval a) const { return within<1>({a, 0, 0, 0}); }
  TILEFOLD_HD Bounds at(Interval a, Interval b) const { return within<2>({a, b, 0, 0}); }
  TILEFOLD_HD Bounds at(Interval a, Interval b, Interval c) const {
    return within<3>({a, b, c, 0});
  }
  TILEFOLD_HD Bounds at(Interval a, Interval b, Interval c, Interval d) const {
    return within<4>({a, b, c, d});
  }

 private:
  TILEFOLD_HD constexpr long long along(int axis, int index) const {
    return held(axis, index) * stride[axis];
  }
  struct Box {
    Interval axis[max_rank];
  };
  // Axes are counted at compile time: a GPU then holds the indices in registers.
  template <int axes> TILEFOLD_HD Bounds within(Box box) const {
    if (values == nullptr) return BoundsOf<T>::unknown();
    for (int a = 0; a < axes; ++a)
      box.axis[a] = {held(a, box.axis[a].low), held(a, box.axis[a].high)};
    int level = 0;
    while (level <= levels && !few_cells<axes>(box, level)) ++level;
    if (level > levels) return BoundsOf<T>::unknown();
    CellRange<axes> met{};
    for (int a = 0; a < axes; ++a) {
      met.first[a] = box.axis[a].low >> shift(a, level);
      met.count[a] = (box.axis[a].high >> shift(a, level)) - met.first[a] + 1;
    }
    const LowHigh<T> found = bounds_of_cells(*this, level, met);
    return BoundsOf<T>::of(found.low, found.high);
  }
  template <int axes> TILEFOLD_HD bool few_cells(const Box& box, int level) const {
    bool few = true;
    for (int a = 0; a < axes; ++a)
      few = few && (box.axis[a].high >> shift(a, level)) - (box.axis[a].low >> shift(a, level)) <
                       most_cells;
    return few;
  }
};

/// The least and largest of all entries of the cells of `level`; NaN where one is NaN.
template <class T, int axes> TILEFOLD_HD LowHigh<T> bounds_of_cells(const SideArray<T>& array,
                                                                    int level,
                                                                    const CellRange<axes>& cells) {
  int all = 1;
  for (int a = 0; a < axes; ++a) all *= cells.count[a];
  LowHigh<T> found{};
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
  for (int i = 0; i < all; ++i) {
    int rest = i;
    long long element = 0, cell = 0, cells_before = 1;
    for (int a = axes - 1; a >= 0; --a) {
      const int index = cells.first[a] + (a == 0 ? rest : rest % cells.count[a]);
      if (a > 0) rest /= cells.count[a];
      element += index * array.stride[a];
      cell += index * cells_before;
      cells_before *= array.cells(a, level);
    }
    if (level > 0) cell += array.begin[level - 1];
    const T low = level == 0 ? loaded(array.values + element) : loaded(array.low + cell);
    const T high = level == 0 ? low : loaded(array.high + cell);
    if (i == 0 || low < found.low || low != low) found.low = low;
    if (i == 0 || high > found.high || high != high) found.high = high;
  }
  return found;
}

/// Cell `number` of `level`, 1 or more, from the level below, of an array of so many axes.
template <int axes, class T>
TILEFOLD_HD LowHigh<T> bounds_below(const SideArray<T>& array, int level, long long number) {
  CellRange<axes> below{};
  for (int a = axes - 1; a >= 0; --a) {
    const int cells = array.cells(a, level), at = int(number % cells);
    number /= cells;
    const int fan = array.is_blocked(a) ? 1 << SideArray<T>::fan_bits : 1;
    below.first[a] = at * fan;
    below.count[a] = smaller(fan, array.cells(a, level - 1) - below.first[a]);
  }
  return bounds_of_cells(array, level - 1, below);
}
/// How cells are built.
template <class T>
TILEFOLD_HD LowHigh<T> bounds_below(const SideArray<T>& array, int level, long long number) {
  switch (array.rank) {
    case 1: return bounds_below<1>(array, level, number);
    case 2: return bounds_below<2>(array, level, number);
    case 3: return bounds_below<3>(array, level, number);
    default: return bounds_below<4>(array, level, number);
  }
}

}  // namespace tilefold::score
