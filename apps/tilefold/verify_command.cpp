// `tilefold verify`: random problems against the float64 reference.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "command.hpp"
#include "cuda/backend.hpp"
#include "option_checks.hpp"
#include "progress.hpp"
#include "support/option_matrix.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cli {

namespace {

struct Arguments {
  std::string backend = "cpu", family;
  int cases = 1000;
  std::uint64_t seed = 1;
  double work = testing::GeneratorLimits{}.work;
  int workers = 0, repeats = 1;
  bool matrix = false, json = false;
};

const char* name(testing::CellAnswer answer) {
  switch (answer) {
    case testing::CellAnswer::right: return "right";
    case testing::CellAnswer::wrong: return "wrong";
    case testing::CellAnswer::refused: return "refused";
    case testing::CellAnswer::planned: return "planned";
  }
  return "";
}

void print_json(const testing::OptionMatrix& matrix, const std::string& report) {
  nlohmann::ordered_json object{{"not_run", matrix.absence},
                                {"options", nlohmann::ordered_json::array()}};
  for (const testing::MatrixRow& row : matrix.rows) {
    nlohmann::ordered_json cells;
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const testing::MatrixCell& cell = row.cells[c];
      cells[matrix.columns[c]] = {
          {"answer", name(cell.answer())}, {"right", cell.right},
          {"wrong", cell.wrong},           {"refused", cell.refused},
          {"planned", cell.planned},       {"worst_part_of_allowed", cell.worst},
          {"reason", cell.reason}};
    }
    object["options"].push_back({{"option", row.option}, {"cells", cells}});
  }
  object["report"] = report;
  fmt::print("{}\n", object.dump(2));
}

void print_matrix(const Arguments& a, const CLI::App& command) {
  testing::MatrixOptions options;
  if (command.count("--cases") != 0) options.cases = a.cases;
  if (command.count("--work") != 0) options.work = a.work;
  options.seed = a.seed;
  options.workers = a.workers;
  std::ostringstream report;
  testing::OptionMatrix matrix;
  {
    Progress progress("verify --matrix");
    matrix = testing::option_matrix(options, report, [&](int done, int of) {
      progress.update(double(done) / of, fmt::format("{} of {}", done, of));
    });
  }
  if (a.json)
    print_json(matrix, report.str());
  else
    fmt::print("{}{}", report.str(), matrix.text());
  if (matrix.count(testing::CellAnswer::wrong) != 0) throw Exit{ExitCode::check_failed};
}

/// On CUDA each formula built at run time is a compilation of seconds, save where the family `any`
/// alone is asked for, which interprets them.
bool only_interpreted() {
  const char* only = std::getenv("TILEFOLD_CUDA_KERNELS");
  return only != nullptr && std::string_view(only).starts_with("any");
}

void verify(const Arguments& a) {
  const bool on_cuda = a.backend == "cuda";
  if (on_cuda && !cuda::presence().absence.empty())
    throw Error(ErrorCode::unsupported, cuda::presence().absence + ": verify --backend cpu");
  testing::VerifyOptions options;
  options.backend = on_cuda ? Backend::cuda : Backend::cpu;
  options.cases = a.cases;
  options.seed = a.seed;
  options.limits.work = a.work;
  if (!a.family.empty())
    options.limits.family =
        a.family == "sm90" ? testing::KernelFamily::sm90 : testing::KernelFamily::sm80;
  if (!on_cuda || only_interpreted()) options.limits.formulas = testing::FormulaParts::everything;
  options.workers = a.workers;
  options.repeats = a.repeats;
  std::ostringstream json_report;
  testing::VerifySummary summary;
  {
    Progress progress("verify");
    summary = testing::verify(options, a.json ? json_report : std::cout, [&](int done, int of) {
      progress.update(double(done) / of, fmt::format("{} of {}", done, of));
    });
  }
  std::cout.flush();
  if (a.json) {
    const nlohmann::ordered_json object{{"backend", a.backend},
                                        {"cases", a.cases},
                                        {"seed", a.seed},
                                        {"family", a.family},
                                        {"passed", summary.passed},
                                        {"failed", summary.failed},
                                        {"refused", summary.refused},
                                        {"worst_part_of_allowed", summary.worst_ratio},
                                        {"report", json_report.str()}};
    fmt::print("{}\n", object.dump(2));
  } else {
    if (on_cuda) fmt::print("{}", summary.option_counts());
    fmt::print("{}verify: {} cases from seed {} on {}: {} passed, {} failed, {} refused\n",
               summary.text(), a.cases, a.seed, a.backend, summary.passed, summary.failed,
               summary.refused);
  }
  // The generator draws only what the CPU must compute, so there a refusal is a breach too. On CUDA
  // an option is right or refused: the matrix shows which.
  if (summary.failed != 0 || (!on_cuda && summary.refused != 0)) throw Exit{ExitCode::check_failed};
}

}  // namespace

void add_verify(CLI::App& tool) {
  CLI::App* command =
      tool.add_subcommand("verify", "Random problems against the float64 reference");
  const auto a = std::make_shared<Arguments>();
  command->add_option("--backend", a->backend, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--cases", a->cases, "How many")
      ->capture_default_str()
      ->check(whole_number(1, std::numeric_limits<int>::max()));
  command->add_option("--seed", a->seed, "Problem i is drawn from seed + i")
      ->capture_default_str()
      ->check(whole_number(0));
  command
      ->add_option("--family", a->family,
                   "Draws problems that this family of kernels takes: sm90 or sm80")
      ->check(CLI::IsMember({"sm90", "sm80"}));
  command->add_option("--work", a->work, "Products of a problem, at most")
      ->capture_default_str()
      ->check(positive_number());
  command->add_option("--workers", a->workers, "Problems at a time; 0: one a core")
      ->capture_default_str()
      ->check(whole_number(0, most_threads));
  command->add_option("--repeat", a->repeats, "Runs of each problem, which must have the same bits")
      ->capture_default_str()
      ->check(whole_number(1, 100000));
  command
      ->add_flag("--matrix", a->matrix,
                 "Each option on each family of kernels: right, or refused with a reason; --cases "
                 "of each (6), --work (3e5)")
      ->excludes("--backend", "--family", "--repeat");
  command->add_flag("--json", a->json, "Prints one JSON object");
  command->callback([a, command] { a->matrix ? print_matrix(*a, *command) : verify(*a); });
}

}  // namespace tilefold::cli
