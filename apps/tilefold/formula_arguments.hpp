// The options of the command line that hold formulas, and what their texts may name.
//
//   --mask 'k <= q + off and doc[q + off] == doc[k]' --tensor doc=ids.npy
//   --score 's + slope[head] * real(k - (q + off))' --tensor slope=layer.safetensors:slopes
#pragma once

#include <string>
#include <vector>

#include "tilefold/formula.hpp"

namespace CLI {
class App;
}

namespace tilefold::cli {

class TensorStore;

struct FormulaArguments {
  std::string mask, score;                    // texts
  std::vector<std::string> tensors, scalars;  // NAME=FILE and NAME=VALUE

  /// Adds --mask and --score to these groups of the help, --tensor and --scalar to that of scores.
  void add_to(CLI::App& command, const char* masks, const char* scores);
  /// Reads the tensors into `store`, which outlives the formulas. Throws FormulaError where a text
  /// is wrong, UsageError where a name is wrong or no text reads it, Error where a tensor is.
  struct Read {
    Mask mask{};  // without a node unless --mask is given
    ScoreChange score{};
  };
  Read read(TensorStore& store) const;
};

}  // namespace tilefold::cli
