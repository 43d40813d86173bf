// Compares results with what a handed case expects.
#pragma once

#include <string>

#include "support/handed_case.hpp"

namespace tilefold::testing {

/// Gathers every comparison of one run; the worst is kept in words.
class CaseComparison {
 public:
  /// `dtype`: the tolerance's name. An element may differ by tolerance * (1 + |expected|).
  CaseComparison(const HandedCase& c, std::string dtype);

  /// Everything that the case says of these results: whole arrays, rows, digests, single points.
  void check(const CaseArray& out, const CaseArray& lse);
  void check_array(const std::string& what, const CaseArray& got, const CaseArray& want);
  void check_values(const std::string& what, const std::vector<double>& got,
                    const std::vector<double>& want, double tolerance);
  void fail(const std::string& what);
  /// From here on nothing is computed: numbers are not compared.
  void expect_no_numbers() { holds_numbers_ = false; }
  bool holds_numbers() const { return holds_numbers_; }

  bool passed() const { return worst_ <= 1; }
  double worst() const { return worst_; }
  const std::string& text() const { return text_; }
  double tolerance(const std::string& what) const;

 private:
  void note(double ratio, const std::string& text);
  void keep_worst(double ratio, const std::string& text);
  void check_digest(const std::string& what, const CaseArray& got);

  const HandedCase& case_;
  std::string dtype_;
  double worst_ = 0;
  bool holds_numbers_ = true;
  std::string text_ = "equal";
};

/// The rows of an array along its first axis.
CaseArray rows_of(const CaseArray& array, const std::vector<std::int64_t>& rows);

}  // namespace tilefold::testing
