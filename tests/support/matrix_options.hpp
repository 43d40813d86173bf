// The rows of the option matrix: every option of docs/semantics.md, one demand each.
#pragma once

#include <string>
#include <vector>

#include "support/demand.hpp"

namespace tilefold::testing {

struct MatrixOption {
  std::string name;
  Demand demand;
};

std::vector<MatrixOption> matrix_options();

}  // namespace tilefold::testing
