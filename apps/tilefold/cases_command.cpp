// `tilefold cases`: files of small cases from real faults.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "command.hpp"
#include "cuda/backend.hpp"
#include "support/cases_runner.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cli {

namespace {

struct Arguments {
  std::string backend = "cpu";
  std::string file;
  bool plan_only = false, strict = false, json = false;
};

void print_json(const testing::CasesSummary& summary) {
  using testing::CaseStatus;
  nlohmann::ordered_json object;
  for (const auto status :
       {CaseStatus::passed, CaseStatus::failed, CaseStatus::planned, CaseStatus::unsupported})
    object[name(status)] = summary.count(status);
  object["cases"] = nlohmann::ordered_json::array();
  for (const testing::CaseReport& c : summary.reports) {
    auto refusals = nlohmann::ordered_json::array();
    for (const testing::CaseRefusal& r : c.refusals)
      refusals.push_back({{"dtype", r.dtype}, {"reason", r.reason}});
    object["cases"].push_back({{"id", c.id},
                               {"kind", c.kind},
                               {"op", c.op},
                               {"status", name(c.status)},
                               {"text", c.text},
                               {"worst", c.worst},
                               {"refusals", refusals}});
  }
  fmt::print("{}\n", object.dump(2));
}

void run_cases(const Arguments& a) {
  testing::CasesOptions options;
  if (a.backend == "cuda") {
    const std::string absence = cuda::presence().absence;
    if (cuda::kernels().empty() || (!a.plan_only && !absence.empty()))
      throw Error(ErrorCode::unsupported, absence + ": cases --backend cpu");
    options.backend = Backend::cuda;
    options.formulas = testing::Formulas::as_data;
  }
  if (a.plan_only) options.execution = testing::Execution::plan;
  options.strictness = a.strict ? testing::Strictness::strict : testing::Strictness::lenient;
  std::ostringstream unused;
  const testing::CasesSummary summary =
      testing::run_cases(a.file, options, a.json ? unused : std::cout);
  std::cout.flush();
  if (summary.reports.empty())
    throw Error(ErrorCode::file_format,
                fmt::format("{}: it holds no case, which is one JSON object a line", a.file));
  if (a.json) {
    print_json(summary);
  } else {
    fmt::print("{}", summary.text());
  }
  if (!summary.ok()) throw Exit{ExitCode::check_failed};
}

}  // namespace

void add_cases(CLI::App& tool) {
  CLI::App* command = tool.add_subcommand("cases", "Runs a file of cases, one JSON object a line");
  const auto a = std::make_shared<Arguments>();
  command->add_option("file", a->file, "FILE.jsonl")->required();
  command->add_option("--backend", a->backend, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_flag("--plan-only", a->plan_only,
                    "Plans and computes nothing; --backend cuda then needs no device");
  command->add_flag("--strict", a->strict, "An unsupported case is a failure");
  command->add_flag("--json", a->json, "Prints one JSON object");
  command->callback([a] { run_cases(*a); });
}

}  // namespace tilefold::cli
