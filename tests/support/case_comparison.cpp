// Element by element, with the tolerances that the cases state.
#include "support/case_comparison.hpp"

#include <fmt/core.h>

#include <cmath>
#include <limits>

namespace tilefold::testing {

CaseComparison::CaseComparison(const HandedCase& c, std::string dtype)
    : case_(c), dtype_(std::move(dtype)) {}

double CaseComparison::tolerance(const std::string& what) const {
  // "lse_fp32": lse is float32 whatever the inputs are, unless they are float64.
  const auto own = case_.tolerances.find("lse_fp32");
  if (what.rfind("lse", 0) == 0 && dtype_ != "fp64" && own != case_.tolerances.end())
    return own->second;
  return case_.tolerances.at(dtype_);
}

void CaseComparison::note(double ratio, const std::string& text) {
  if (holds_numbers_) keep_worst(ratio, text);
}

void CaseComparison::keep_worst(double ratio, const std::string& text) {
  if (!(ratio > worst_)) return;
  worst_ = ratio;
  text_ = text;
}

void CaseComparison::fail(const std::string& what) {
  keep_worst(std::numeric_limits<double>::infinity(), what);
}

void CaseComparison::check_values(const std::string& what, const std::vector<double>& got,
                                  const std::vector<double>& want, double allowed) {
  if (got.size() != want.size())
    return fail(fmt::format("{} has {} numbers, want {}", what, got.size(), want.size()));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double x = got[i], y = want[i];
    const bool same = x == y || (std::isnan(x) && std::isnan(y));
    if (same) continue;
    const double error = std::abs(x - y);
    const double ratio = std::isfinite(error) ? error / (allowed * (1 + std::abs(y)))
                                              : std::numeric_limits<double>::infinity();
    note(ratio, fmt::format("{}[{}] is {:.9g}, want {:.9g}: {:.2g} of the tolerance", what, i, x, y,
                            ratio));
  }
}

void CaseComparison::check_array(const std::string& what, const CaseArray& got,
                                 const CaseArray& want) {
  if (got.shape != want.shape) return fail(what + " has another shape");
  check_values(what, got.data, want.data, tolerance(what));
}

void CaseComparison::check_digest(const std::string& what, const CaseArray& got) {
  const auto found = case_.digests.find(what + "_digest");
  if (found == case_.digests.end()) return;
  const CaseDigest a = digest_of(got.data), b = found->second;
  double size = 0;  // each element may differ by its own tolerance
  for (const double x : got.data)
    if (std::isfinite(x)) size += 1 + std::abs(x);
  const double allowed = tolerance(what) * size;
  for (const auto& [name, x, y] : {std::tuple("sum", a.sum, b.sum), std::tuple("abs", a.abs, b.abs),
                                   std::tuple("dot", a.dot, b.dot)})
    note(std::abs(x - y) / allowed,
         fmt::format("{} of {} is {:.12g}, want {:.12g}", name, what, x, y));
}

void CaseComparison::check(const CaseArray& out, const CaseArray& lse) {
  const auto expect = [&](const std::string& name, const CaseArray& got) {
    if (const auto found = case_.expected.find(name); found != case_.expected.end())
      check_array(name, got, found->second);
  };
  expect("out", out);
  expect("lse", lse);
  for (const auto& [name, array] : {std::pair("out", &out), std::pair("lse", &lse)}) {
    if (const auto found = case_.expected.find(std::string(name) + "_rows");
        found != case_.expected.end())
      check_array(name, rows_of(*array, found->second.rows), found->second);
    check_digest(name, *array);
  }
  const std::int64_t heads = out.shape[1], columns = out.shape[2];
  const auto row_at = [&](std::int64_t row, std::int64_t head) {
    const auto first = out.data.begin() + (row * heads + head) * columns;
    return std::vector<double>(first, first + columns);
  };
  if (case_.expected.count("out_first_head")) {
    check_values("out, first head", row_at(0, 0), case_.expected.at("out_first_head").data,
                 tolerance("out"));
    check_values("out, last head", row_at(0, heads - 1), case_.expected.at("out_last_head").data,
                 tolerance("out"));
  }
  for (const CasePoint& point : case_.points) {
    check_values("out", row_at(point.row, point.head), point.data, tolerance("out"));
    check_values("lse", {lse.data[std::size_t(point.row * heads + point.head)]}, {point.lse},
                 tolerance("lse"));
  }
}

CaseArray rows_of(const CaseArray& array, const std::vector<std::int64_t>& rows) {
  CaseArray picked;
  picked.shape = array.shape;
  picked.shape[0] = std::int64_t(rows.size());
  std::int64_t size = 1;
  for (std::size_t axis = 1; axis < array.shape.size(); ++axis) size *= array.shape[axis];
  for (const std::int64_t row : rows)
    picked.data.insert(picked.data.end(), array.data.begin() + row * size,
                       array.data.begin() + (row + 1) * size);
  return picked;
}

}  // namespace tilefold::testing
