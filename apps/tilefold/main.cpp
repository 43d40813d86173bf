// The tool: registers the commands and turns every error into one line and an exit code; below an
// error of a formula stand its text and a mark.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "command.hpp"
#include "option_checks.hpp"
#include "tilefold/attention.hpp"

namespace tilefold::cli {

namespace {

int fail(ExitCode code, const std::string& message) {
  std::fflush(stdout);
  // Not fmt::print, which throws where there is no standard error: this is the last resort.
  std::fputs(fmt::format("tilefold: {}\n", message).c_str(), stderr);
  return int(code);
}

ExitCode code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::file_io:
    case ErrorCode::file_format: return ExitCode::file;
    case ErrorCode::unsupported: return ExitCode::unsupported;
    default: return ExitCode::refused;
  }
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

// "--backend: At Most 1 required but received 2" is what CLI11 says of an option given twice.
std::string in_plain_words(const CLI::ParseError& error) {
  constexpr std::string_view at_most = ": At Most 1 required but received ";
  std::string text = one_line(error.what());
  const auto at = text.find(at_most);
  if (at == std::string::npos) return text;
  return fmt::format("{} is given {} times: it takes one value", text.substr(0, at),
                     text.substr(at + at_most.size()));
}

constexpr const char* exit_codes =
    "Exit codes: 0 ok, 1 a check failed, 2 bad usage, 3 refused, 4 file error, 5 unsupported here.";

// CLI11 says of an unknown command only that one is required.
void require_known_command(const CLI::App& app, char** argument, char** end) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty() || argument == end || (*argument)[0] == '-') return;
  std::string names;
  for (const CLI::App* command : commands) {
    if (command->get_name() == *argument) return require_known_command(*command, argument + 1, end);
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  throw UsageError(
      fmt::format("'{}' is no command of {}: it has {}", *argument, app.get_name(), names));
}

void complete(CLI::App& command) {
  command.footer(exit_codes);
  for (CLI::Option* option : command.get_options())
    if (option->get_items_expected_min() > 0) option->check(something());
  for (CLI::App* inner : command.get_subcommands({})) complete(*inner);
}

int run(int count, char** arguments) {
  CLI::App tool{"tilefold: exact attention tile by tile", "tilefold"};
  tool.require_subcommand(1);
  tool.set_version_flag("--version", version());
  tool.footer(exit_codes);
  add_attend(tool);
  add_explain(tool);
  add_verify(tool);
  add_cases(tool);
  add_bench(tool);
  add_kernels(tool);
  add_ladder(tool);
  add_cache(tool);
  add_info(tool);
  complete(tool);
  try {
    require_known_command(tool, arguments + 1, arguments + count);
    tool.parse(count, arguments);
  } catch (const CLI::Success& asked) {  // --help and --version
    return tool.exit(asked);
  } catch (const CLI::ParseError& error) {
    return fail(ExitCode::usage, in_plain_words(error));
  } catch (const FormulaError& error) {
    return fail(ExitCode::usage, error.what());
  } catch (const UsageError& error) {
    return fail(ExitCode::usage, one_line(error.what()));
  } catch (const Exit& exit) {
    return int(exit.code);
  } catch (const Error& error) {
    return fail(code_of(error.code()), one_line(error.what()));
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::refused, "out of memory");
  } catch (const std::system_error& error) {
    return fail(ExitCode::file, one_line(error.what()));
  } catch (const std::exception& error) {
    return fail(ExitCode::refused, one_line(error.what()));
  }
  return int(ExitCode::ok);
}

// A report that ended in a full disk or a closed pipe must not pass for a whole one.
int finish(int code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || code != int(ExitCode::ok)) return code;
  return fail(ExitCode::file,
              fmt::format("the standard output cannot be written: {}", std::strerror(errno)));
}

}  // namespace

}  // namespace tilefold::cli

int main(int count, char** arguments) {
  tilefold::cli::remember_command_line(count, arguments);
  return tilefold::cli::finish(tilefold::cli::run(count, arguments));
}
