// Plans each problem for each family, then runs those that a device is there for.
#include "support/option_matrix.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <ostream>

#include "core/geometry.hpp"
#include "cuda/backend.hpp"
#include "front/kernels.hpp"
#include "support/device_description.hpp"
#include "support/in_order.hpp"
#include "support/matrix_options.hpp"
#include "support/only_kernels.hpp"
#include "tilefold/error.hpp"

namespace tilefold::testing {

namespace {

struct Column {
  std::string name, family;
  Backend backend;
};

std::vector<Column> columns() {
  std::vector<Column> all{{"cpu", "cpu", Backend::cpu}};
  for (const planner::Candidate& kernel : cuda::kernels()) {
    // Of a program's own formulas and of text: no option asks for them.
    const std::string family = kernel.family;
    if (family == "compiled" || family.rfind("nvrtc", 0) == 0 || all.back().family == family)
      continue;
    all.push_back({std::string("cuda ") + kernel.family, kernel.family, Backend::cuda});
  }
  return all;
}

Problem where_it_runs(const RandomProblem& drawn, Backend backend) {
  const bool device_lengths = drawn.lengths_on_device.value_or(false);
  if (backend == Backend::cuda)
    return described_on_device(drawn.problem,
                               device_lengths ? LengthHome::device : LengthHome::host);
  return device_lengths ? with_lengths_on_device(drawn.problem) : drawn.problem;
}

/// Why no kernel of the family computes the problem; empty where one does. Of several reasons the
/// last that is not about the type of a sister kernel: kernels stand smallest first.
std::string refusal_of_family(const RandomProblem& drawn, const Column& column) {
  std::string reason;
  try {
    const Problem problem = where_it_runs(drawn, column.backend);
    const core::Geometry geometry = core::resolve(problem);
    bool of_type = true;
    for (const planner::Candidate& kernel : all_kernels()) {
      if (kernel.family != column.family) continue;
      const auto refused = planner::refusal(kernel, geometry, problem);
      if (!refused) return "";
      const bool about_type = refused->rfind("it multiplies in", 0) == 0;
      if (!reason.empty() && about_type && !of_type) continue;
      of_type = about_type;
      reason = *refused;
    }
  } catch (const Error& error) {
    return error.what();
  }
  return reason;
}

struct Outcome {
  CellAnswer answer = CellAnswer::right;
  double ratio = 0;
  std::string text;  // the reason, or the fault with its problem
};

Outcome outcome_of(const MatrixOption& option, const Column& column, const MatrixOptions& how,
                   int index, bool runs) {
  GeneratorLimits limits;
  limits.work = how.work;
  limits.demand = option.demand;
  RandomProblem drawn = make_random_problem(how.seed + std::uint64_t(index), limits);
  const std::string refusal = refusal_of_family(drawn, column);
  if (!refusal.empty()) return {CellAnswer::refused, 0, refusal};
  if (!runs) return {CellAnswer::planned, 0, ""};
  const ProblemVerdict verdict = check_problem(drawn, column.backend);
  const std::string fault = verdict.refusal.empty()
                                ? verdict.fault
                                : "planned, and refused when it ran: " + verdict.refusal;
  if (fault.empty()) return {CellAnswer::right, verdict.ratio, ""};
  return {
      CellAnswer::wrong, 0,
      fmt::format("WRONG: {} on {}: {}\n{}", option.name, column.name, fault, drawn.describe())};
}

void add(const Outcome& outcome, MatrixCell& cell, std::ostream& report) {
  switch (outcome.answer) {
    case CellAnswer::right: ++cell.right; break;
    case CellAnswer::planned: ++cell.planned; break;
    case CellAnswer::refused:
      ++cell.refused;
      cell.reason = outcome.text;
      break;
    case CellAnswer::wrong:
      ++cell.wrong;
      report << outcome.text;
      break;
  }
  cell.worst = std::max(cell.worst, outcome.ratio);
}

std::string cell_text(const MatrixCell& cell, std::vector<std::string>& notes) {
  std::string text;
  if (cell.wrong != 0) text = fmt::format("WRONG {}", cell.wrong);
  if (cell.right != 0)
    text += fmt::format("{}right {} ({:.2f})", text.empty() ? "" : ", ", cell.right, cell.worst);
  if (cell.planned != 0)
    text += fmt::format("{}planned {}", text.empty() ? "" : ", ", cell.planned);
  if (cell.refused == 0) return text;
  auto note = std::find(notes.begin(), notes.end(), cell.reason);
  if (note == notes.end()) note = notes.insert(notes.end(), cell.reason);
  return text + fmt::format("{}refused {} [{}]", text.empty() ? "" : ", ", cell.refused,
                            note - notes.begin() + 1);
}

}  // namespace

CellAnswer MatrixCell::answer() const {
  if (wrong != 0) return CellAnswer::wrong;
  if (right != 0) return CellAnswer::right;
  return planned != 0 ? CellAnswer::planned : CellAnswer::refused;
}

OptionMatrix option_matrix(const MatrixOptions& options, std::ostream& report,
                           const VerifyProgress& progress) {
  const std::vector<MatrixOption> rows = matrix_options();
  const std::vector<Column> all = columns();
  OptionMatrix matrix;
  matrix.absence = cuda::presence().absence;
  for (const Column& column : all) matrix.columns.push_back(column.name);
  for (const MatrixOption& row : rows)
    matrix.rows.push_back({row.name, std::vector<MatrixCell>(all.size())});
  const int of_column = int(rows.size()) * options.cases;
  for (std::size_t c = 0; c < all.size(); ++c) {
    const OnlyKernels only(all[c].family);
    const bool runs = all[c].backend == Backend::cpu || matrix.absence.empty();
    in_order<Outcome>(
        of_column, worker_count(options.workers),
        [&](int i) {
          return outcome_of(rows[std::size_t(i / options.cases)], all[c], options,
                            i % options.cases, runs);
        },
        [&](int i, const Outcome& outcome) {
          add(outcome, matrix.rows[std::size_t(i / options.cases)].cells[c], report);
          if (progress) progress(int(c) * of_column + i + 1, int(all.size()) * of_column);
        });
  }
  return matrix;
}

int OptionMatrix::count(CellAnswer answer) const {
  int cells = 0;
  for (const MatrixRow& row : rows)
    cells += int(std::count_if(row.cells.begin(), row.cells.end(),
                               [&](const MatrixCell& cell) { return cell.answer() == answer; }));
  return cells;
}

std::string OptionMatrix::text() const {
  std::vector<std::string> notes;
  std::string lines = fmt::format("{:36}", "option");
  for (const std::string& column : columns) lines += fmt::format(" {:26}", column);
  lines.erase(lines.find_last_not_of(' ') + 1);
  lines += "\n";
  for (const MatrixRow& row : rows) {
    lines += fmt::format("{:36}", row.option);
    for (const MatrixCell& cell : row.cells) lines += fmt::format(" {:26}", cell_text(cell, notes));
    lines.erase(lines.find_last_not_of(' ') + 1);
    lines += "\n";
  }
  for (std::size_t i = 0; i < notes.size(); ++i) lines += fmt::format("[{}] {}\n", i + 1, notes[i]);
  lines +=
      "right N (r): N problems agree with float64; the largest difference is r of what is "
      "allowed\n";
  if (!absence.empty() && columns.size() > 1)
    lines += fmt::format("CUDA's columns were planned and not run: {}\n", absence);
  lines += fmt::format("matrix: {} cells right, {} wrong, {} refused, {} planned\n",
                       count(CellAnswer::right), count(CellAnswer::wrong),
                       count(CellAnswer::refused), count(CellAnswer::planned));
  return lines;
}

}  // namespace tilefold::testing
