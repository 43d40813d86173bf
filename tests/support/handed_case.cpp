// Reads the JSON lines of the handed cases.
#include "support/handed_case.hpp"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "tilefold/error.hpp"

namespace tilefold::testing {

namespace {

using nlohmann::json;

double number(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_string()) return value.get<double>();
  const std::string text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw Error(ErrorCode::file_format, "'" + text + "' stands where a number must");
}

bool is_number(const json& value) {
  return value.is_number() || value.is_boolean() || value == "nan" || value == "inf" ||
         value == "-inf";
}

std::vector<std::int64_t> integers(const json& values) {
  return values.get<std::vector<std::int64_t>>();
}

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

/// Sets the sub-array that a partial index names.
void set_part(CaseArray& array, const std::vector<std::int64_t>& index, double value) {
  std::int64_t first = 0, count = product(array.shape);
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    count /= array.shape[axis];
    first += index[axis] * count;
  }
  for (std::int64_t i = first; i < first + count; ++i) array.data[std::size_t(i)] = value;
}

CaseArray array_of(const json& spec) {
  CaseArray array;
  array.shape = integers(spec.at("shape"));
  if (spec.contains("data")) {
    for (const json& value : spec.at("data")) array.data.push_back(number(value));
  } else {
    const auto grid =
        spec.contains("grid") ? std::optional<int>(spec.at("grid").get<int>()) : std::nullopt;
    array.data = generate(product(array.shape), spec.at("lcg_seed").get<std::uint64_t>(),
                          spec.value("scale", 1.0), grid);
  }
  for (double& x : array.data) x = x * spec.value("mul", 1.0) + spec.value("add", 0.0);
  for (const json& part : spec.value("set", json::array()))
    set_part(array, integers(part.at(0)), number(part.at(1)));
  if (spec.contains("rows")) array.rows = integers(spec.at("rows"));
  if (spec.contains("view")) {
    const json& view = spec.at("view");
    array.view = CaseView{integers(view.at("strides")), view.value("offset", std::int64_t{0}),
                          view.at("storage").get<std::int64_t>(),
                          view.contains("fill") ? number(view.at("fill")) : 0};
  }
  if (spec.contains("expand"))
    throw Error(ErrorCode::file_format, "'expand' is not read by this runner");
  return array;
}

CasePages pages_of(const json& spec) {
  CasePages pages{spec.at("num_pages").get<std::int64_t>(), integers(spec.at("page_shape")), {}};
  for (const json& placed : spec.at("placed"))
    pages.placed.push_back({placed.at("page").get<std::int64_t>(),
                            placed.at("slots").get<std::int64_t>(), array_of(placed.at("gen"))});
  return pages;
}

void flatten(const json& value, std::vector<double>& out) {
  if (!value.is_array()) return out.push_back(number(value));
  for (const json& part : value) flatten(part, out);
}

bool holds_numbers(const json& value) {
  if (!value.is_array()) return is_number(value);
  for (const json& part : value)
    if (!holds_numbers(part)) return false;
  return true;
}

void read_parameter(HandedCase& c, const std::string& name, const json& value) {
  if (is_number(value)) {
    c.numbers[name] = number(value);
  } else if (value.is_string()) {
    const std::string text = value.get<std::string>();
    c.texts[name] = text;
    if (text.rfind("arange(", 0) == 0)
      for (int i = 0, n = std::stoi(text.substr(7)); i < n; ++i) c.lists[name].push_back(i);
  } else if (value.is_array() && holds_numbers(value)) {
    if (!value.empty() && value[0].is_array()) {
      for (const json& part : value) flatten(part, c.tables[name].emplace_back());
    } else {
      flatten(value, c.lists[name]);
    }
  }
}

void read_expectation(HandedCase& c, const std::string& name, const json& value) {
  if (value.is_string()) {
    c.expected_texts[name] = value.get<std::string>();
  } else if (name == "out_at") {
    for (const json& at : value)
      c.points.push_back({at.at("row"), at.at("head"), at.at("data").get<std::vector<double>>(),
                          at.at("lse").get<double>()});
  } else if (value.is_object() && value.contains("dot")) {
    c.digests[name] = {value.at("sum"), value.at("abs"), value.at("dot")};
  } else if (value.is_object() && value.contains("data")) {
    c.expected[name] = array_of(value);
  } else if (value.is_object()) {  // results of named calls, slopes by head count
    for (const auto& [key, part] : value.items())
      if (part.is_object() || holds_numbers(part)) read_expectation(c, name + "." + key, part);
  } else if (value.is_array() && !value.empty() && value[0].is_object()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      for (const auto& [key, part] : value[i].items()) {
        const std::string full = name + "." + std::to_string(i) + "." + key;
        if (part.is_object())
          read_expectation(c, full, part);
        else
          read_parameter(c, full, part);
      }
  } else if (holds_numbers(value)) {
    CaseArray array;
    flatten(value, array.data);
    array.shape = {std::int64_t(array.data.size())};
    c.expected[name] = array;
  }
}

HandedCase case_of(const json& line) {
  HandedCase c;
  c.id = line.at("id");
  c.kind = line.value("kind", "");
  c.why = line.value("why", "");
  c.op = line.at("op");
  const json parameters = line.value("params", json::object());
  for (const auto& [name, value] : parameters.items()) read_parameter(c, name, value);
  const json inputs = line.value("inputs", json::object());
  for (const auto& [name, spec] : inputs.items()) {
    if (spec.contains("placed"))
      c.pools[name] = pages_of(spec);
    else
      c.inputs[name] = array_of(spec);
  }
  const json expected = line.value("expect", json::object());
  for (const auto& [name, value] : expected.items()) read_expectation(c, name, value);
  const json tolerances = line.value("tol", json::object());
  if (tolerances.is_object())
    for (const auto& [name, value] : tolerances.items())
      if (value.is_number()) c.tolerances[name] = value.get<double>();
  return c;
}

}  // namespace

std::vector<HandedCase> read_handed_cases(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorCode::file_io, "cases '" + path + "': the file cannot be opened");
  std::vector<HandedCase> cases;
  std::string line;
  for (int row = 1; std::getline(file, line); ++row) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      cases.push_back(case_of(json::parse(line)));
    } catch (const json::exception& e) {
      throw Error(ErrorCode::file_format,
                  "line " + std::to_string(row) + " of '" + path + "' is no case: " + e.what());
    }
  }
  return cases;
}

std::vector<double> generate(std::int64_t count, std::uint64_t seed, double scale,
                             std::optional<int> grid) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::uint64_t x = seed;
  for (double& value : values) {
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    value = scale * (2 * (double(x >> 11) * 0x1p-53) - 1);
    if (grid) value = std::nearbyint(value * std::ldexp(1.0, -*grid)) * std::ldexp(1.0, *grid);
  }
  return values;
}

CaseDigest digest_of(const std::vector<double>& values) {
  const std::vector<double> weights = generate(std::int64_t(values.size()), 12345, 1);
  CaseDigest digest;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    digest.sum += values[i];
    digest.abs += std::abs(values[i]);
    digest.dot += values[i] * weights[i];
  }
  return digest;
}

}  // namespace tilefold::testing
