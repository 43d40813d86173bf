#include "cuda/jit/compile_log.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

namespace tilefold::cuda::jit {

namespace {

/// "options.mask(3): error: ..." and the lines below it.
struct Diagnostic {
  std::string file, line, message;
};

/// Whether a diagnostic begins here; then it is written to `found`.
bool begins(const std::string& text, Diagnostic& found) {
  const std::size_t close = text.find("): ");
  const std::size_t open = close == text.npos ? text.npos : text.rfind('(', close);
  if (open == text.npos || open == 0 || text[0] == ' ') return false;
  found = {text.substr(0, open), text.substr(open + 1, close - open - 1), text.substr(close + 3)};
  return found.line.find_first_not_of("0123456789") == found.line.npos;
}

bool is_error(const Diagnostic& d) {
  return d.message.rfind("error", 0) == 0 || d.message.rfind("catastrophic error", 0) == 0;
}

std::vector<Diagnostic> diagnostics_of(const std::string& log) {
  std::vector<Diagnostic> all;
  std::istringstream lines(log);
  bool context = true;  // of templates, or before the first
  for (std::string text; std::getline(lines, text);) {
    Diagnostic found;
    if (begins(text, found)) {
      all.push_back(std::move(found));
      context = false;
    } else if (text.find("detected during") != text.npos ||
               text.find("detected in the compilation") != text.npos) {
      context = true;
    } else if (!context && text.find_first_not_of(' ') != text.npos) {
      all.back().message += "\n" + text;
    }
  }
  return all;
}

}  // namespace

std::string errors_in(const std::string& log, const std::string& file) {
  std::vector<Diagnostic> all = diagnostics_of(log);
  std::erase_if(all, [](const Diagnostic& d) { return !is_error(d); });
  const auto own = [&](const Diagnostic& d) { return d.file.rfind(file, 0) == 0; };
  const bool any_own = std::any_of(all.begin(), all.end(), own);
  std::string text;
  int told = 0;
  for (const Diagnostic& d : all) {
    if ((any_own && !own(d)) || told++ == 5) continue;
    const std::size_t word = d.message.find("error: ");
    const std::string message = word == d.message.npos ? d.message : d.message.substr(word + 7);
    text += (text.empty() ? "" : "\n") + d.file + ", line " + d.line + ": " + message;
  }
  return text.empty() ? log : text;
}

}  // namespace tilefold::cuda::jit
