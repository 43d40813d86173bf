// How far a long command is: a bar on a terminal, a line every ten seconds elsewhere, on stderr.
#pragma once

#include <chrono>
#include <string>

namespace tilefold::cli {

/// Silent during the first two seconds: short commands print nothing.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `part` of 1 is done; `note` says what comes next.
  void update(double part, const std::string& note = "");

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  Clock::time_point start_ = Clock::now(), last_ = start_;
  enum class Terminal { yes, no } terminal_;
  bool drawn_ = false;
};

}  // namespace tilefold::cli
