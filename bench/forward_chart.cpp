// The forward's grid as an SVG drawing: small panels on one scale, a line a contender.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>

#include "bench/forward_grid.hpp"
#include "bench/svg.hpp"
#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

using svg::text_at;

constexpr int panel_width = 320, panel_height = 226, plot_left = 42, plot_top = 32;
constexpr int plot_width = panel_width - plot_left - 22, plot_height = panel_height - plot_top - 44;
constexpr int title_height = 74;
// Told apart by lightness and by their marks too: readable in grey and with weak colour vision.
constexpr std::array colours = {"#0b5394", "#d9770f", "#5f9e54", "#888888", "#a64d79"};
constexpr std::array colours_in_the_dark = {"#74b3f5", "#f0a04b", "#93c47d", "#b0b0b0", "#d793b4"};

// A page that shows the picture tells it nothing; the reader's own setting does.
std::string style() {
  std::string dark = "svg{fill:#ddd} .ground{fill:#14181d} .line{stroke:#3a4048}";
  for (std::size_t i = 0; i < colours.size(); ++i)
    dark += fmt::format(" .f{0}{{fill:{1}}} .s{0}{{stroke:{1}}}", i, colours_in_the_dark[i]);
  return "<style>@media (prefers-color-scheme: dark) {" + dark + "}</style>\n";
}

std::string mark(double x, double y, std::size_t contender) {
  const std::size_t colour = contender % colours.size();
  const std::string fill = fmt::format("class=\"f{}\" fill=\"{}\"", colour, colours[colour]);
  if (contender % 3 == 1)
    return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"6\" height=\"6\" {}/>\n", x - 3,
                       y - 3, fill);
  if (contender % 3 == 2)
    return fmt::format("<path d=\"M{:.1f} {:.1f}l4 7h-8z\" {}/>\n", x, y - 4.5, fill);
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.4\" {}/>\n", x, y, fill);
}

std::string path(const std::string& points, std::size_t contender) {
  const std::size_t colour = contender % colours.size();
  return fmt::format(
      "<polyline class=\"s{}\" points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"/>\n",
      colour, points, colours[colour], contender == 0 ? "2.4" : "1.6");
}

class GridChart {
 public:
  explicit GridChart(const GridResults& grid) : grid_(grid) {
    for (const GridPoint& p : grid.points) {
      head_dims_.insert(p.head_dim);
      masks_.insert(p.causal);
      lengths_.insert(p.length);
      dtypes_.insert(p.dtype);
      top_ = std::max(top_, p.tflops * 1.06);
    }
    for (const GridPoint& p : grid.points)
      if (std::find(contenders_.begin(), contenders_.end(), name_of(p)) == contenders_.end())
        contenders_.push_back(name_of(p));
    // Ours is drawn first and thick, whatever order the files have.
    std::stable_partition(contenders_.begin(), contenders_.end(),
                          [](const std::string& name) { return name.rfind("tilefold", 0) == 0; });
  }

  std::string draw() {
    // The title needs the width of two panels.
    const int width = std::max(2, int(head_dims_.size())) * panel_width;
    const int height = title_height + int(masks_.size()) * panel_height;
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" fill=\"#222\">\n{2}"
        "<rect class=\"ground\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        width, height, style());
    title();
    int y = title_height;
    for (const bool causal : masks_) {
      int x = 0;
      for (const int head_dim : head_dims_) {
        panel(head_dim, causal, x, y);
        x += panel_width;
      }
      y += panel_height;
    }
    return svg_ + "</svg>\n";
  }

 private:
  std::string name_of(const GridPoint& point) const {
    return dtypes_.size() > 1 ? point.contender + " " + point.dtype : point.contender;
  }

  void title() {
    svg_ += text_at(
        12, 22, 15, "start",
        fmt::format("The forward: TFLOPS by sequence length, {}", fmt::join(dtypes_, " and ")));
    svg_ += text_at(
        12, 40, 11, "start",
        fmt::format("{}; {} tokens, hidden size {}", grid_.origin, grid_tokens, grid_hidden));
    double x = 12;
    for (std::size_t c = 0; c < contenders_.size(); ++c) {
      svg_ += path(fmt::format("{:.1f},58 {:.1f},58", x, x + 22), c) + mark(x + 11, 58, c);
      svg_ += text_at(x + 28, 62, 11, "start", contenders_[c]);
      x += 48 + 6.6 * double(contenders_[c].size());
    }
  }

  double across(int length) const {
    const double first = std::log2(*lengths_.begin()), last = std::log2(*lengths_.rbegin());
    return last > first ? (std::log2(length) - first) / (last - first) * plot_width
                        : plot_width / 2.0;
  }

  void panel(int head_dim, bool causal, int x, int y) {
    const double left = x + plot_left, bottom = y + plot_top + plot_height;
    const auto height_of = [&](double rate) { return rate / top_ * plot_height; };
    svg_ += text_at(left, y + 20, 12, "start",
                    fmt::format("head dimension {}, {}", head_dim, causal ? "causal" : "all keys"));
    for (double rate = 0; rate < top_; rate += svg::axis_step(top_)) {
      svg_ += svg::horizontal(left, plot_width, bottom - height_of(rate),
                              "class=\"line\" stroke=\"#ddd\"");
      svg_ += text_at(left - 8, bottom - height_of(rate) + 4, 10, "end", fmt::format("{:g}", rate));
    }
    for (const int length : lengths_)
      svg_ += text_at(left + across(length), bottom + 16, 10, "middle", fmt::format("{}", length));
    svg_ += text_at(left + plot_width / 2.0, bottom + 31, 10, "middle", "tokens a sequence");
    // From the last to the first, so that ours lies on top.
    for (std::size_t c = contenders_.size(); c-- > 0;) {
      std::string points, marks;
      for (const GridPoint& p : in_panel(c, head_dim, causal)) {
        const double at = left + across(p.length), up = bottom - height_of(p.tflops);
        points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", at, up);
        marks += mark(at, up, c);
      }
      if (!points.empty()) svg_ += path(points, c) + marks;
    }
  }

  std::vector<GridPoint> in_panel(std::size_t contender, int head_dim, bool causal) const {
    std::vector<GridPoint> points;
    std::copy_if(grid_.points.begin(), grid_.points.end(), std::back_inserter(points),
                 [&](const GridPoint& p) {
                   return name_of(p) == contenders_[contender] && p.head_dim == head_dim &&
                          p.causal == causal;
                 });
    std::sort(points.begin(), points.end(),
              [](const GridPoint& a, const GridPoint& b) { return a.length < b.length; });
    return points;
  }

  const GridResults& grid_;
  std::set<int> head_dims_, lengths_;
  std::set<bool> masks_;
  std::set<std::string> dtypes_;
  std::vector<std::string> contenders_;
  double top_ = 1;
  std::string svg_;
};

}  // namespace

std::string to_svg(const GridResults& grid) {
  if (grid.points.empty())
    throw Error(ErrorCode::file_format,
                "no row is of the grid: 16384 tokens, hidden size 2048, queued launches");
  return GridChart(grid).draw();
}

}  // namespace tilefold::bench
