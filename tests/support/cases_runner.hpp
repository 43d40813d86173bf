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
/// `plan`: nothing is computed, so no number is checked; needs no GPU for Backend::cuda.
enum class Execution { run, plan };
/// Masks and score changes that are code, as the case gives them or as a bias that holds their
/// values. `as_data` is for backends that take no code.
enum class Formulas { as_code, as_data };

struct CasesOptions {
  Strictness strictness = Strictness::lenient;
  Backend backend = Backend::automatic;
  Execution execution = Execution::run;
  Formulas formulas = Formulas::as_code;
};

/// `unsupported`: the library has no such operation, or refused every dtype as unsupported with
/// nothing written. `planned`: a kernel was chosen and not run.
enum class CaseStatus { passed, failed, planned, unsupported };
const char* name(CaseStatus status);

/// A dtype in which the case was refused as unsupported.
struct CaseRefusal {
  std::string dtype, reason;
};

struct CaseReport {
  std::string id, kind, op;
  CaseStatus status = CaseStatus::passed;
  std::string text;  ///< dtypes run, worst difference, or the reason
  double worst = 0;  ///< largest difference as a part of what the case allows
  std::vector<CaseRefusal> refusals;
};

struct CasesSummary {
  std::vector<CaseReport> reports;
  Strictness strictness = Strictness::lenient;
  int count(CaseStatus status) const;
  bool ok() const;
  /// "66 passed, 0 failed, 48 unsupported", and how many were planned and not run.
  std::string text() const;
};

/// Throws Error(file_io, file_format) for a file that holds no cases.
CasesSummary run_cases(const std::string& path, const CasesOptions& options, std::ostream& report);

}  // namespace tilefold::testing
