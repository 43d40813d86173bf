// The operations of run-time formulas (include/tilefold/score/operation_table.hpp), as the library
// names them.
#pragma once

#include "tilefold/score/operation_table.hpp"

namespace tilefold::score {

const char* name(Kind kind);

}  // namespace tilefold::score
