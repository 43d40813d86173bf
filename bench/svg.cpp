#include "bench/svg.hpp"

#include <fmt/format.h>

#include <cmath>

namespace tilefold::bench::svg {

namespace {

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

std::string text_at(double x, double y, int size, const char* anchor, const std::string& text) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, size,
      anchor, escaped(text));
}

std::string horizontal(double x, double width, double y, const std::string& attributes) {
  return fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x,
                     x + width, y, y, attributes);
}

double axis_step(double top) {
  const double power = std::pow(10, std::floor(std::log10(top / 4)));
  for (const double factor : {5.0, 2.0})
    if (factor * power <= top / 4) return factor * power;
  return power;
}

}  // namespace tilefold::bench::svg
