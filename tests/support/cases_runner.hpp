// Runs files of handed cases through the public API.
//
//   CasesSummary summary = run_cases("tests/cases/handed.jsonl", {}, std::cout);
//   return summary.ok() ? 0 : 1;
//
// Every operation is run in each dtype that the case states a tolerance for and that holds its
// inputs exactly. Operations without an implementation are reported as unsupported, with the
// reason.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "tilefold/problem.hpp"

namespace tilefold::testing {

/// `strict`: an unsupported case counts as a failure.
enum class Strictness { lenient, strict };

struct CasesOptions {
  Strictness strictness = Strictness::lenient;
  Backend backend = Backend::automatic;
};

enum class CaseStatus { passed, failed, unsupported };

struct CaseReport {
  std::string id, kind, op;
  CaseStatus status = CaseStatus::passed;
  std::string text;  ///< dtypes run, worst difference, or the reason
  double worst = 0;  ///< largest difference as a part of what the case allows
};

struct CasesSummary {
  std::vector<CaseReport> reports;
  Strictness strictness = Strictness::lenient;
  int count(CaseStatus status) const;
  bool ok() const;
  std::string text() const;
};

/// Throws Error(file_io, file_format) for a file that holds no cases.
CasesSummary run_cases(const std::string& path, const CasesOptions& options, std::ostream& report);

}  // namespace tilefold::testing
