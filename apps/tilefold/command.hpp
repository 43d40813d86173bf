// What the commands of the tool share: exit codes, output, and how they are registered.
#pragma once

#include <stdexcept>
#include <string>

namespace CLI {
class App;
}

namespace tilefold::cli {

/// What the process returns; docs/cli.md lists them.
enum class ExitCode {
  ok = 0,
  check_failed = 1,  ///< a check, case or verification failed
  usage = 2,         ///< the command line is wrong
  refused = 3,       ///< tilefold refused the problem
  file = 4,          ///< a file cannot be read or written, or is malformed
  unsupported = 5,   ///< a right problem that this build or machine does not compute
};

/// A command line that CLI11 takes and tilefold does not.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// A formula that is none: its message has lines of its own, which show the text and point into it.
struct FormulaError : UsageError {
  using UsageError::UsageError;
};

enum class Output { text, json };

/// Ends a command with something else than ok; caught by main().
struct Exit {
  ExitCode code;
};

// Each adds its command and its options to the tool; the command runs as CLI11's callback.
void add_attend(CLI::App& tool);
void add_explain(CLI::App& tool);
void add_verify(CLI::App& tool);
void add_cases(CLI::App& tool);
void add_bench(CLI::App& tool);
void add_kernels(CLI::App& tool);
void add_info(CLI::App& tool);
void add_ladder(CLI::App& tool);
void add_cache(CLI::App& tool);

/// The whole command line, for reports.
void remember_command_line(int count, char** arguments);
const std::string& command_line();

}  // namespace tilefold::cli
