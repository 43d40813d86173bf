// Law: every handed case that the CPU runs is planned for CUDA or refused with a reason, and a case
// that expects an error gets it from the CUDA plan. Nothing runs: no device is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "cuda/backend.hpp"
#include "support/cases_runner.hpp"
#include "tilefold/error.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

/// A staged program runs from the repository's root on another machine.
std::string handed_path() {
  const std::string built_here = TILEFOLD_SOURCE_DIR "/tests/cases/handed.jsonl";
  return std::filesystem::exists(built_here) ? built_here : "tests/cases/handed.jsonl";
}

CasesSummary planned_for(Backend backend, Formulas formulas, std::ostream& report) {
  CasesOptions options;
  options.backend = backend;
  options.execution = Execution::plan;
  options.formulas = formulas;
  return run_cases(handed_path(), options, report);
}

std::set<std::string> ids_of(const CasesSummary& summary, CaseStatus status) {
  std::set<std::string> ids;
  for (const CaseReport& r : summary.reports)
    if (r.status == status) ids.insert(r.id);
  return ids;
}

// "nan-1 fp64": what CUDA refuses of the cases that the CPU plans. Only float64 today.
const char* const cases_with_float64[] = {
    "addm-1", "alibi-1",  "alibi-6", "batch-1", "binv-1",   "cap-1",    "cap-5",   "cap-8",
    "casc-1", "causal-1", "chunk-1", "fmr-1",   "fmr-2",    "gqa-3",    "gqa-6",   "graph-1",
    "grid-1", "hd-1",     "hd-4",    "i32-5",   "layout-1", "logit-1",  "logit-2", "logit-5",
    "lse-1",  "lse-4",    "mask-4",  "mla-1",   "nan-1",    "nan-5",    "page-1",  "page-4",
    "plan-1", "ring-1",   "ring-5",  "ring-6",  "sink-1",   "sink-4",   "sink-7",  "smod-2",
    "smod-5", "smod-7",   "split-1", "split-3", "stride-1", "stride-2", "table-1", "tail-1",
    "win-1",  "win-2",    "zero-1",  "zero-2"};

TEST(HandedCasesOnCuda, ArePlannedButForFloat64) {
  std::ostringstream report;
  const CasesSummary summary = planned_for(Backend::cuda, Formulas::as_data, report);
  EXPECT_EQ(summary.count(CaseStatus::failed), 0) << report.str();
  std::set<std::string> refused;
  for (const CaseReport& r : summary.reports)
    for (const CaseRefusal& refusal : r.refusals) {
      refused.insert(r.id);
      EXPECT_EQ(refusal.dtype, "fp64") << r.id << ": " << refusal.reason;
      EXPECT_THAT(refusal.reason, HasSubstr("it multiplies in f32: the inputs are f64")) << r.id;
    }
  const std::set<std::string> expected(std::begin(cases_with_float64),
                                       std::end(cases_with_float64));
  EXPECT_THAT(refused, ElementsAreArray(expected));
  for (const std::string& id : expected)
    EXPECT_EQ(ids_of(summary, CaseStatus::planned).count(id), 1u)
        << id << " has no other dtype that CUDA takes";
}

TEST(HandedCasesOnCuda, AreTheOnesThatTheCpuComputes) {
  std::ostringstream report;
  const CasesSummary cpu = planned_for(Backend::cpu, Formulas::as_code, report);
  const CasesSummary cuda = planned_for(Backend::cuda, Formulas::as_data, report);
  for (const CaseStatus status : {CaseStatus::planned, CaseStatus::passed, CaseStatus::unsupported})
    EXPECT_EQ(ids_of(cuda, status), ids_of(cpu, status)) << name(status);
}

TEST(HandedCasesOnCuda, FormulasThatAreCodeAreRefusedWithTheirReason) {
  std::ostringstream report;
  const CasesSummary summary = planned_for(Backend::cuda, Formulas::as_code, report);
  EXPECT_EQ(summary.count(CaseStatus::failed), 0) << report.str();
  std::set<std::string> refused;
  for (const CaseReport& r : summary.reports)
    for (const CaseRefusal& refusal : r.refusals) {
      if (refusal.dtype == "fp64") continue;
      refused.insert(r.id);
      EXPECT_THAT(refusal.reason, HasSubstr("compiled for its type")) << r.id;
    }
  EXPECT_THAT(refused, ElementsAreArray({"fmr-1", "fmr-2", "logit-2", "mask-4", "plan-1", "smod-2",
                                         "smod-5", "smod-7"}));
}

TEST(CudaPlans, NeedNoDeviceAndRunsDo) {
  if (cuda::presence().absence.empty()) GTEST_SKIP() << "this machine has a device";
  Problem problem;
  Tensors& t = problem.tensors;
  const Device device = Device::cuda(0);
  t.query = TensorView(nullptr, DType::bf16, {1, 64, 2, 64}, device);
  t.key = t.value = t.query;
  t.out = OutputView(nullptr, DType::bf16, {1, 64, 2, 64}, device);
  Plan plan = tilefold::plan(problem);
  try {
    plan.prepare();
    ADD_FAILURE() << "prepared without a device";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("no CUDA device"));
  }
}

}  // namespace
}  // namespace tilefold::testing
