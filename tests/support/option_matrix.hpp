// Each option on each family of kernels: right, or refused with a reason.
//
//   OptionMatrix matrix = option_matrix({.cases = 6}, std::cout);
//   std::cout << matrix.text();
//   return matrix.count(CellAnswer::wrong) == 0 ? 0 : 1;
//
// A row is an option of docs/semantics.md: problems that have it and are plain otherwise
// (support/demand.hpp), the same ones for every column. A column is the CPU backend, or one family
// of CUDA kernels. Without a device, CUDA's columns say what was planned; nothing of them ran.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "support/verify.hpp"

namespace tilefold::testing {

struct MatrixOptions {
  int cases = 6;           ///< problems of each cell
  std::uint64_t seed = 1;  ///< problem i of every row is drawn from seed + i
  double work = 3e5;       ///< as GeneratorLimits::work
  int workers = 0;         ///< as VerifyOptions::workers
};

enum class CellAnswer { right, wrong, refused, planned };

struct MatrixCell {
  int right = 0, wrong = 0, refused = 0, planned = 0;
  double worst = 0;    ///< of the right ones, as a part of what the accuracy rule allows
  std::string reason;  ///< of the last refusal
  /// Wrong where any problem was; refused where all were.
  CellAnswer answer() const;
};

struct MatrixRow {
  std::string option;             ///< "mask: window"
  std::vector<MatrixCell> cells;  ///< one a column
};

struct OptionMatrix {
  std::vector<std::string> columns;  ///< "cpu", "cuda sm80", "cuda any"
  std::vector<MatrixRow> rows;
  std::string absence;  ///< why CUDA's columns were not run; empty where they were
  int count(CellAnswer answer) const;
  /// A line a row, reasons as numbered notes below.
  std::string text() const;
};

/// Wrong results are printed to `report` with their problems.
OptionMatrix option_matrix(const MatrixOptions& options, std::ostream& report,
                           const VerifyProgress& progress = {});

}  // namespace tilefold::testing
