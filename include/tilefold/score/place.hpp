// Where a formula is being read: everything but the query and key positions themselves.
#pragma once

#include "tilefold/score/portable.hpp"

namespace tilefold::score {

/// Handed to every keep() and change() as their last argument.
struct Place {
  int batch;  ///< sequence within the batch
  int query_head;
  int kv_head;
  int query_length;  ///< Sq of this sequence
  int key_length;    ///< Sk of this sequence
  int offset;        ///< added to a query's position to align it with the keys: Sk - Sq by default
};

}  // namespace tilefold::score
