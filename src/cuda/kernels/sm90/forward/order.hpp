// In which order blocks take the work: item number -> row tile of a list of rows, by integer
// multiplications alone. Host and device.
//
// plain: lists of rows one after the other, so that neighbouring blocks share K and V in the L2.
// sections: for masks whose later rows see more keys. A section of lists, whose K and V fit the L2,
// takes its row tiles from the longest to the shortest; the shortest 1/tail of all row tiles come
// last, over all lists, to even out the end.
//
//   4 row tiles, 6 lists, sections of 4, tail 4:
//   tile 3 of lists 0-3, tile 2 of 0-3, tile 1 of 0-3; tile 3 of 4-5, 2 of 4-5, 1 of 4-5; tile 0 of
//   0-5
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::cuda::sm90 {

/// Division by a number known at launch: one high multiplication. Exact for 0 <= value < 2^31.
struct Divisor {
  unsigned divisor = 1, multiplier = 0, shift = 0;

  /// Granlund and Montgomery's round-up method for 31-bit numerators.
  TILEFOLD_HD static constexpr Divisor of(int d) {
    Divisor by;
    by.divisor = unsigned(d);
    if (d == 1) return by;
    unsigned bits = 0;
    while ((1ull << bits) < unsigned(d)) ++bits;
    by.shift = bits - 1;
    by.multiplier = unsigned(((1ull << (31 + bits)) + unsigned(d) - 1) / unsigned(d));
    return by;
  }
  TILEFOLD_HD constexpr int operator()(int value) const {
    if (divisor == 1) return value;
    return int((static_cast<unsigned long long>(unsigned(value)) * multiplier >> 32) >> shift);
  }
};

struct RowTile {
  int list;  // sequence * lists a sequence + list of the sequence
  int tile;  // row tile of the list
};

struct WorkOrder {
  int lists = 0, row_tiles = 0;
  int section = 0;        // lists of a section; 0: plain order
  int first_of_tail = 0;  // items before the tail
  int tail_tiles = 0;     // row tiles of a list that come in the tail
  Divisor by_row_tiles, by_lists, by_section_items, by_section, by_last_section;

  TILEFOLD_HD constexpr int items() const { return lists * row_tiles; }

  TILEFOLD_HD static constexpr WorkOrder plain(int lists, int row_tiles) {
    WorkOrder order;
    order.lists = lists, order.row_tiles = row_tiles;
    order.by_row_tiles = Divisor::of(row_tiles > 0 ? row_tiles : 1);
    return order;
  }
  TILEFOLD_HD static constexpr WorkOrder sections(int lists, int row_tiles, int section, int tail) {
    WorkOrder order = plain(lists, row_tiles);
    if (lists == 0 || row_tiles == 0) return order;
    order.section = score::smaller(section, lists);
    order.tail_tiles = tail >= 2 ? row_tiles / tail : 0;
    const int long_tiles = row_tiles - order.tail_tiles;
    order.first_of_tail = lists * long_tiles;
    order.by_lists = Divisor::of(lists);
    order.by_section_items = Divisor::of(order.section * long_tiles);
    order.by_section = Divisor::of(order.section);
    const int rest = lists % order.section;
    order.by_last_section = Divisor::of(rest == 0 ? order.section : rest);
    return order;
  }

  TILEFOLD_HD constexpr RowTile at(int item) const {
    if (section == 0) {
      const int list = by_row_tiles(item);
      return {list, item - list * row_tiles};
    }
    if (item >= first_of_tail) {
      const int rest = item - first_of_tail, turn = by_lists(rest);
      return {rest - turn * lists, tail_tiles - 1 - turn};
    }
    const int index = by_section_items(item);
    const int rest = item - index * int(by_section_items.divisor);
    const bool whole = (index + 1) * section <= lists;
    const Divisor& width = whole ? by_section : by_last_section;
    const int turn = width(rest);
    return {index * section + rest - turn * int(width.divisor), row_tiles - 1 - turn};
  }
};

}  // namespace tilefold::cuda::sm90
