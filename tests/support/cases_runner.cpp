// Runs each case in each dtype and says how it went.
#include "support/cases_runner.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <ostream>

#include "support/case_operations.hpp"
#include "tilefold/error.hpp"

namespace tilefold::testing {

namespace {

/// What ran beside what could not: a case with gradients and a result, a graph without a GPU.
std::string remark_on(const HandedCase& c) {
  if (c.op == "ring_attention" && c.expected.count("dq")) return " (forward only)";
  if (c.op == "paged_attention_graph") return " (replays as plans, no graph)";
  return "";
}

std::string remark_on(const CaseLog& log, const CasesOptions& options) {
  if (options.backend != Backend::cuda && !log.formula_as_bias) return "";
  if (log.problems == 0) return " (on the host)";
  return log.formula_as_bias ? " (its formula as a bias)" : "";
}

/// How one dtype went.
struct DtypeResult {
  CaseStatus status = CaseStatus::passed;
  std::string text;
  double worst = 0;
};

DtypeResult run_in_dtype(const HandedCase& c, const CaseOperation& operation,
                         const std::string& dtype, const CasesOptions& options, CaseLog& log) {
  CaseComparison compare(c, dtype);
  try {
    operation.run({c, dtype, case_dtype(dtype), options, log, compare});
  } catch (const Error& error) {
    if (compare.passed() && c.expected_texts.count("or_error"))
      return {CaseStatus::passed, "refused, as the case allows", 0};
    if (compare.passed() && error.code() == ErrorCode::unsupported)
      return {CaseStatus::unsupported, error.what(), 0};
    compare.fail(fmt::format("refused: {}", error.what()));
  }
  if (!compare.passed())
    return {CaseStatus::failed, fmt::format("FAILED: {}", compare.text()), compare.worst()};
  if (compare.holds_numbers())
    return {CaseStatus::passed, fmt::format("{:.2g}", compare.worst()), compare.worst()};
  return {CaseStatus::planned, fmt::format("for {}", log.planned_kernel), 0};
}

/// Only 16-bit queries read fp8 caches; latent queries are computed, so they round in any dtype.
bool takes_dtype(const HandedCase& c, DType dtype) {
  if (c.op == "attention_fp8_kv" && bits_of(dtype) != 16) return false;
  return c.op == "mla" || exact_in(c, dtype);
}

std::vector<std::string> dtypes_of(const HandedCase& c, const CaseOperation& operation) {
  if (operation.dtypes == Dtypes::one) return {"fp32"};
  std::vector<std::string> dtypes;
  for (const char* dtype : {"fp64", "fp32", "fp16", "bf16"})
    if (c.tolerances.count(dtype) && takes_dtype(c, case_dtype(dtype))) dtypes.push_back(dtype);
  return dtypes;
}

/// Failed where a dtype failed; passed (or planned) where one did and others were refused as
/// unsupported, which the text names; unsupported where all were.
CaseReport run_case(const HandedCase& c, const CasesOptions& options) {
  CaseReport report{c.id, c.kind, c.op, CaseStatus::unsupported, "", 0, {}};
  const CaseOperation operation = operation_of(c);
  if (!operation.run) {
    report.text = " " + operation.reason;
    return report;
  }
  CaseLog log;
  const std::vector<std::string> dtypes = dtypes_of(c, operation);
  for (const std::string& dtype : dtypes) {
    const DtypeResult result = run_in_dtype(c, operation, dtype, options, log);
    report.worst = std::max(report.worst, result.worst);
    if (result.status == CaseStatus::unsupported) {
      report.refusals.push_back({dtype, result.text});
      report.text += fmt::format(" {} refused;", dtype);
      continue;
    }
    report.text += fmt::format(" {} {};", dtype, result.text);
    if (report.status != CaseStatus::failed) report.status = result.status;
  }
  if (dtypes.empty()) {
    report.status = CaseStatus::failed;
    report.text = " ran in no dtype";
  }
  if (report.status == CaseStatus::unsupported)
    report.text =
        fmt::format(" {}: {}", report.refusals.back().dtype, report.refusals.back().reason);
  report.text += remark_on(c) + remark_on(log, options);
  return report;
}

}  // namespace

const char* name(CaseStatus status) {
  switch (status) {
    case CaseStatus::passed: return "passed";
    case CaseStatus::failed: return "failed";
    case CaseStatus::planned: return "planned";
    case CaseStatus::unsupported: return "unsupported";
  }
  return "";
}

CasesSummary run_cases(const std::string& path, const CasesOptions& options, std::ostream& report) {
  CasesSummary summary{{}, options.strictness};
  for (const HandedCase& c : read_handed_cases(path)) {
    summary.reports.push_back(run_case(c, options));
    const CaseReport& last = summary.reports.back();
    report << fmt::format("{:<10} {:<24} {:<12}{}\n", last.id, last.op,
                          last.status == CaseStatus::failed ? "FAILED" : name(last.status),
                          last.text);
  }
  return summary;
}

int CasesSummary::count(CaseStatus status) const {
  return int(std::count_if(reports.begin(), reports.end(),
                           [&](const CaseReport& r) { return r.status == status; }));
}

bool CasesSummary::ok() const {
  return count(CaseStatus::failed) == 0 &&
         (strictness == Strictness::lenient || count(CaseStatus::unsupported) == 0);
}

std::string CasesSummary::text() const {
  std::string text = fmt::format("{} passed, {} failed, {} unsupported", count(CaseStatus::passed),
                                 count(CaseStatus::failed), count(CaseStatus::unsupported));
  if (const int planned = count(CaseStatus::planned); planned != 0)
    text += fmt::format(", {} planned and not run", planned);
  return text + "\n";
}

}  // namespace tilefold::testing
