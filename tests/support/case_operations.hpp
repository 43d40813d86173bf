// What a handed case's operation does: one function an operation.
//
//   const CaseOperation operation = operation_of(c);
//   if (operation.run) operation.run({c, "fp32", DType::f32, options, log, compare});
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/case_comparison.hpp"
#include "support/cases_runner.hpp"
#include "support/handed_problem.hpp"

namespace tilefold::testing {

/// What an operation asked of the library.
struct CaseLog {
  int problems = 0;              ///< how many were asked for; 0: the case needs no backend
  std::string planned_kernel;    ///< of the last one, where it was planned and not run
  bool formula_as_bias = false;  ///< a formula that is code was given as a bias
};

/// One case in one dtype.
struct CaseRun {
  const HandedCase& c;
  std::string dtype_name;
  DType dtype;
  const CasesOptions& how;
  CaseLog& log;
  CaseComparison& compare;
};

/// `stated`: every dtype that the case has a tolerance for; `one`: a single time, with float32
/// tensors where there are any.
enum class Dtypes { stated, one };

/// An operation: its function, or why it has none.
struct CaseOperation {
  std::function<void(const CaseRun&)> run;
  std::string reason;
  Dtypes dtypes = Dtypes::stated;
};

CaseOperation operation_of(const HandedCase& c);

inline DType state_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

void run_merge(const CaseRun& run);
void run_fp8_encode(const CaseRun& run);
void run_alibi_slopes(const CaseRun& run);
/// The addresses of a pool too large for 32 bits, by the library's own arithmetic.
void run_index_arithmetic(const CaseRun& run);

}  // namespace tilefold::testing
