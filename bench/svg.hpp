// What the charts write alike: text, lines and the values of an axis.
#pragma once

#include <string>

namespace tilefold::bench::svg {

/// `anchor` is start, middle or end; & < > in the text are escaped.
std::string text_at(double x, double y, int size, const char* anchor, const std::string& text);

/// `attributes` say how it is drawn: "stroke=\"#ddd\"".
std::string horizontal(double x, double width, double y, const std::string& attributes);

/// 1, 2 or 5 times a power of ten: four to nine lines up to `top`.
double axis_step(double top);

}  // namespace tilefold::bench::svg
