#include "formula_arguments.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "command.hpp"
#include "problem_arguments.hpp"
#include "score/program/expression_node.hpp"
#include "score/program/side_tensor_state.hpp"
#include "tilefold/error.hpp"
#include "tilefold/expression.hpp"

namespace tilefold::cli {

namespace {

struct NamedText {
  std::string name, text;
};

NamedText split(const std::string& argument, const char* option, const char* what) {
  const std::size_t sign = argument.find('=');
  if (sign == std::string::npos || sign == 0 || sign + 1 == argument.size())
    throw UsageError(fmt::format("{} is '{}': it must be NAME={}", option, argument, what));
  return {argument.substr(0, sign), argument.substr(sign + 1)};
}

/// What `make` gives; a name or value that is none is a mistake of the command line.
template <class Make> auto made(const char* option, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

/// The whole text as a real.
std::optional<double> real_of(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && rest == end ? std::optional(value) : std::nullopt;
}

/// As formulas write it, and with a sign; none where 32 bits do not hold it.
std::optional<int> integer_of(std::string_view text) {
  const bool minus = text.substr(0, 1) == "-";
  const std::optional<long long> size = score::whole_number(text.substr(minus ? 1 : 0));
  if (!size) return std::nullopt;
  const long long value = minus ? -*size : *size;
  const int narrow = int(value);
  return narrow == value ? std::optional(narrow) : std::nullopt;
}

Scalar scalar(const NamedText& given) {
  const std::optional<int> integer = integer_of(given.text);
  const bool infinite = given.text == "inf" || given.text == "-inf";
  const bool is_real =
      infinite || (!integer && given.text.find_first_of(".eE") != std::string::npos);
  const std::optional<double> real = real_of(given.text);
  if (is_real ? !real : !integer)
    throw UsageError(
        fmt::format("--scalar {} is '{}': it must be an integer of 32 bits, a real with a point or "
                    "exponent, inf or -inf",
                    given.name, given.text));
  return is_real ? Scalar(given.name, *real) : Scalar(given.name, *integer);
}

Names names_of(const FormulaArguments& a, TensorStore& store) {
  Names names;
  std::set<std::string> taken;
  const auto take = [&](const char* option, const std::string& name) {
    if (!taken.insert(name).second)
      throw UsageError(fmt::format("{}: the name {} is given twice", option, name));
  };
  for (const std::string& argument : a.tensors) {
    const NamedText given = split(argument, "--tensor", "FILE");
    take("--tensor", given.name);
    const TensorView values = store.read(given.text);
    names.tensors.push_back(made("--tensor", [&] { return SideTensor(given.name, values); }));
  }
  for (const std::string& argument : a.scalars) {
    const NamedText given = split(argument, "--scalar", "VALUE");
    take("--scalar", given.name);
    names.scalars.push_back(made("--scalar", [&] { return scalar(given); }));
  }
  return names;
}

/// Every name that the expression reads.
void collect(const Expression& expression, std::set<std::string>& names) {
  const score::ExpressionNode& node = *expression.node();
  if (node.tensor) names.insert(node.tensor->name);
  if (node.scalar) names.insert(node.scalar->name);
  for (const Expression& operand : node.operands) collect(operand, names);
}

/// A name that no formula reads would change nothing.
void require_read(const Names& names, const std::set<std::string>& read) {
  const auto require = [&](const char* option, const std::string& name) {
    if (!read.contains(name))
      throw UsageError(fmt::format("{} {} is read by no --mask or --score", option, name));
  };
  for (const SideTensor& tensor : names.tensors) require("--tensor", tensor.name());
  for (const Scalar& scalar : names.scalars) require("--scalar", scalar.name());
}

}  // namespace

void FormulaArguments::add_to(CLI::App& command, const char* masks, const char* scores) {
  command
      .add_option("--mask", mask,
                  "A formula over q, k, off, ...: 'k <= q + off and doc[q + off] == doc[k]'")
      ->group(masks);
  command
      .add_option("--score", score,
                  "A formula over s as well: 's + slope[head] * real(k - (q + off))'")
      ->group(scores);
  command
      .add_option("--tensor", tensors,
                  "NAME=FILE, any number of times: a tensor that --mask and --score read")
      ->allow_extra_args(false)
      ->group(scores);
  command
      .add_option("--scalar", scalars,
                  "NAME=VALUE, any number of times: an integer, or a real with a point or exponent")
      ->allow_extra_args(false)
      ->group(scores);
}

FormulaArguments::Read FormulaArguments::read(TensorStore& store) const {
  const Names names = names_of(*this, store);
  std::set<std::string> names_read;
  const auto formula = [&](const char* option, const std::string& text, const auto& make) {
    try {
      const Expression expression = parse_expression(text, names);
      collect(expression, names_read);
      return make(expression);
    } catch (const Error& error) {
      throw FormulaError(fmt::format("{}: {}", option, error.what()));
    }
  };
  Read result;
  if (!mask.empty())
    result.mask = formula("--mask", mask, [](const Expression& e) { return tilefold::mask(e); });
  if (!score.empty())
    result.score = formula("--score", score, [](const Expression& e) { return change(e); });
  require_read(names, names_read);
  return result;
}

}  // namespace tilefold::cli
