// What the tool asks of an option's text beyond CLI11's own checks.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tilefold::cli {

/// A whole number within bounds. CLI11 itself takes 99999999999999999999 for the largest int64.
inline CLI::Validator whole_number(std::int64_t least,
                                   std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  const auto check = [=](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc{} && rest == end && value >= least && value <= most) return "";
    if (most == std::numeric_limits<std::int64_t>::max())
      return fmt::format("'{}' is not a whole number from {} on", text, least);
    return fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
  };
  return CLI::Validator(check, "");
}

/// CLI11's own check prints the largest double in full.
inline CLI::Validator positive_number() {
  const auto check = [](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value > 0 && std::isfinite(value)) return "";
    return fmt::format("'{}' is not a positive finite number", text);
  };
  return CLI::Validator(check, "");
}

/// "--bias ''" comes from an unset shell variable: taken for absent it would change the result.
inline CLI::Validator something() {
  const auto check = [](const std::string& text) -> std::string {
    return text.empty() ? "the text is empty" : "";
  };
  return CLI::Validator(check, "");
}

/// More threads than this cost memory and time and win nothing.
inline constexpr std::int64_t most_threads = 1024;

}  // namespace tilefold::cli
