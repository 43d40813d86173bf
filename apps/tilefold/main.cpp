// The tool: registers the commands and turns every error into one line and an exit code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "command.hpp"
#include "tilefold/attention.hpp"

namespace tilefold::cli {

namespace {

int fail(ExitCode code, const std::string& message) {
  std::fflush(stdout);
  fmt::print(stderr, "tilefold: {}\n", message);
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

constexpr const char* exit_codes =
    "Exit codes: 0 ok, 1 a check failed, 2 bad usage, 3 refused, 4 file error, 5 unsupported here.";

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
  add_info(tool);
  for (CLI::App* command : tool.get_subcommands({})) command->footer(exit_codes);
  try {
    tool.parse(count, arguments);
  } catch (const CLI::Success& asked) {  // --help and --version
    return tool.exit(asked);
  } catch (const CLI::ParseError& error) {
    return fail(ExitCode::usage, one_line(error.what()));
  } catch (const UsageError& error) {
    return fail(ExitCode::usage, one_line(error.what()));
  } catch (const Exit& exit) {
    return int(exit.code);
  } catch (const Error& error) {
    return fail(code_of(error.code()), one_line(error.what()));
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::refused, "out of memory");
  } catch (const std::exception& error) {
    return fail(ExitCode::refused, one_line(error.what()));
  }
  return int(ExitCode::ok);
}

}  // namespace

}  // namespace tilefold::cli

int main(int count, char** arguments) {
  tilefold::cli::remember_command_line(count, arguments);
  return tilefold::cli::run(count, arguments);
}
