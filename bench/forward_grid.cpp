#include "bench/forward_grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>

#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
  return fields;
}

/// One row, its fields by the names of the head: columns were added, and peers have fewer.
class Row {
 public:
  Row(const std::vector<std::string>& names, const std::string& line, std::string place)
      : names_(names), fields_(fields_of(line)), place_(std::move(place)) {}

  std::optional<std::string> find(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      const auto at = std::find(names_.begin(), names_.end(), name);
      const auto index = std::size_t(at - names_.begin());
      if (at != names_.end() && index < fields_.size()) return fields_[index];
    }
    return std::nullopt;
  }
  std::string text(std::initializer_list<std::string_view> names) const {
    if (auto found = find(names)) return *found;
    throw Error(ErrorCode::file_format, fmt::format("{}: it has no {}", place_, *names.begin()));
  }
  double number(std::initializer_list<std::string_view> names) const {
    const std::string digits = text(names);
    double value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [rest, error] = std::from_chars(digits.data(), end, value);
    if (error == std::errc{} && rest == end && value >= 0 && value <= 1e9) return value;
    throw Error(ErrorCode::file_format,
                fmt::format("{}: {} is '{}': it must be a number from 0 to 1e9", place_,
                            *names.begin(), digits));
  }
  int whole(std::initializer_list<std::string_view> names) const { return int(number(names)); }

 private:
  const std::vector<std::string>& names_;
  std::vector<std::string> fields_;
  std::string place_;
};

bool is_one_of(const std::string& text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

bool of_the_grid(const Row& row, const GridPoint& point) {
  const int heads = row.whole({"heads_q", "heads"});
  return is_one_of(row.find({"op"}).value_or("forward"), {"forward", "fwd"}) &&
         is_one_of(row.find({"mode"}).value_or("queued"), {"queued", "burst10"}) &&
         row.find({"window"}).value_or("0") == "0" &&
         row.find({"heads_kv"}).value_or(std::to_string(heads)) == std::to_string(heads) &&
         heads * point.head_dim == grid_hidden && point.length > 0 && point.length <= grid_tokens &&
         row.whole({"batch"}) == grid_tokens / point.length;
}

void add_row(GridResults& grid, const Row& row) {
  const GridPoint point{row.text({"peer"}),         row.text({"dtype"}),
                        row.whole({"hdim"}),        row.whole({"seqlen_q"}),
                        row.whole({"causal"}) != 0, row.number({"rate", "tflops"})};
  if (!of_the_grid(row, point)) return;
  const auto same = [&](const GridPoint& p) {
    return p.contender == point.contender && p.dtype == point.dtype &&
           p.head_dim == point.head_dim && p.length == point.length && p.causal == point.causal;
  };
  std::erase_if(grid.points, same);  // measured again
  grid.points.push_back(point);
}

}  // namespace

void add_results(GridResults& grid, const std::string& text, const std::string& file) {
  std::istringstream lines(text);
  std::vector<std::string> names;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    if (line[0] == '#') {
      if (grid.origin.empty()) grid.origin = line.substr(line.find_first_not_of("# "));
    } else if (names.empty()) {
      names = fields_of(line);
      if (names[0] != "peer")
        throw Error(ErrorCode::file_format,
                    fmt::format("{}: line {} begins with '{}': it must name columns, peer first",
                                file, number, names[0].substr(0, 20)));
    } else {
      add_row(grid, Row(names, line, fmt::format("{}: line {}", file, number)));
    }
  }
  if (names.empty()) throw Error(ErrorCode::file_format, file + ": it holds no results");
}

}  // namespace tilefold::bench
