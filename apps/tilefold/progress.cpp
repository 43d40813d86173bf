#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tilefold::cli {

namespace {

constexpr std::chrono::seconds silence{2}, line_interval{10};
constexpr std::chrono::milliseconds bar_interval{100};
constexpr int bar_width = 30;

}  // namespace

Progress::Progress(std::string label)
    : label_(std::move(label)), terminal_(isatty(STDERR_FILENO) ? Terminal::yes : Terminal::no) {}

Progress::~Progress() {
  if (drawn_ && terminal_ == Terminal::yes) fmt::print(stderr, "\r\033[K");
}

void Progress::update(double part, const std::string& note) {
  const Clock::time_point now = Clock::now();
  if (now - start_ < silence) return;
  const int percent = int(100 * std::clamp(part, 0.0, 1.0));
  if (terminal_ == Terminal::yes) {
    if (drawn_ && now - last_ < bar_interval) return;
    const int filled = bar_width * percent / 100;
    fmt::print(stderr, "\r\033[K{} [{:#<{}}{:<{}}] {:3} % {}", label_, "", filled, "",
               bar_width - filled, percent, note);
  } else {
    if (now - last_ < line_interval) return;
    fmt::print(stderr, "{}: {} % {}\n", label_, percent, note);
  }
  std::fflush(stderr);
  drawn_ = true;
  last_ = now;
}

}  // namespace tilefold::cli
