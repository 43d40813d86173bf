#include "command.hpp"

namespace tilefold::cli {

namespace {

std::string& stored_command_line() {
  static std::string text;
  return text;
}

}  // namespace

void remember_command_line(int count, char** arguments) {
  std::string& text = stored_command_line();
  for (int i = 0; i < count; ++i) {
    const std::string argument = arguments[i];
    // The tool's own directory says nothing about what was measured.
    text += i == 0 ? "tilefold" : " " + argument;
  }
}

const std::string& command_line() { return stored_command_line(); }

}  // namespace tilefold::cli
