// The report as an SVG drawing: bars of GFLOPS, a panel for each dtype, head dimension and mask.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/bench_report.hpp"
#include "bench/machine.hpp"
#include "bench/svg.hpp"

namespace tilefold::bench {

namespace {

constexpr int panel_width = 340, panel_height = 230, plot_left = 48, plot_top = 34;
constexpr int plot_width = panel_width - plot_left - 14, plot_height = panel_height - plot_top - 40;
constexpr int title_height = 70, columns = 2;
// Told apart by lightness too: readable in grey and with weak colour vision.
constexpr std::array colours = {"#0b5394", "#e69138", "#93c47d", "#999999", "#c27ba0"};

struct Panel {
  DType dtype;
  int head_dim;
  bool causal;
  std::vector<const ShapeRow*> rows;
};

std::vector<Panel> panels_of(const CpuBenchReport& report) {
  std::vector<Panel> panels;
  for (const ShapeRow& row : report.rows) {
    const Shape& s = row.shape;
    auto panel = std::find_if(panels.begin(), panels.end(), [&](const Panel& p) {
      return p.dtype == s.dtype && p.head_dim == s.head_dim && p.causal == s.causal;
    });
    if (panel == panels.end()) panel = panels.insert(panel, {s.dtype, s.head_dim, s.causal, {}});
    panel->rows.push_back(&row);
  }
  return panels;
}

using svg::text_at;

class Chart {
 public:
  explicit Chart(const CpuBenchReport& report) : report_(report) {
    contenders_.push_back("tilefold");
    for (const auto& [peer, version] : report.peers) contenders_.push_back(peer);
  }

  std::string draw() {
    const std::vector<Panel> panels = panels_of(report_);
    const int lines = (int(panels.size()) + columns - 1) / columns;
    const int width = columns * panel_width, height = title_height + lines * panel_height;
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" fill=\"#222\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        width, height);
    title();
    for (std::size_t i = 0; i < panels.size(); ++i)
      draw_panel(panels[i], int(i) % columns * panel_width,
                 title_height + int(i) / columns * panel_height);
    return svg_ + "</svg>\n";
  }

 private:
  void title() {
    svg_ += text_at(12, 22, 15, "start", "Attention on the CPU: GFLOPS by sequence length");
    svg_ += text_at(12, 40, 11, "start",
                    fmt::format("{}, {} threads, {}, commit {}; dashed: f32 multiply-add peak",
                                this_machine().cpu, report_.threads, today(), commit()));
    double x = 12;
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
      svg_ += fmt::format("<rect x=\"{:.1f}\" y=\"50\" width=\"11\" height=\"11\" fill=\"{}\"/>\n",
                          x, colours[i % colours.size()]);
      svg_ += text_at(x + 15, 60, 11, "start", contenders_[i]);
      x += 34 + 6.6 * double(contenders_[i].size());
    }
  }

  double rate(const ShapeRow& row, std::size_t contender) const {
    if (contender == 0) return row.gflops();
    const auto found = row.peers.find(contenders_[contender]);
    return found == row.peers.end() ? 0 : row.flops / found->second / 1e9;
  }

  void draw_panel(const Panel& panel, int x, int y) {
    const double peak = report_.peaks.f32_fma / 1e9;
    double top = peak;
    for (const ShapeRow* row : panel.rows)
      for (std::size_t c = 0; c < contenders_.size(); ++c) top = std::max(top, rate(*row, c));
    top *= 1.08;
    const double left = x + plot_left, bottom = y + plot_top + plot_height;
    const auto height_of = [&](double value) { return value / top * plot_height; };
    svg_ += text_at(left, y + 22, 12, "start",
                    fmt::format("{}, head dimension {}, {}", name(panel.dtype), panel.head_dim,
                                panel.causal ? "causal" : "all keys"));
    for (double value = 0; value < top; value += svg::axis_step(top)) {
      svg_ += svg::horizontal(left, plot_width, bottom - height_of(value), "stroke=\"#ddd\"");
      svg_ +=
          text_at(left - 5, bottom - height_of(value) + 4, 10, "end", fmt::format("{:g}", value));
    }
    const double group = double(plot_width) / double(panel.rows.size());
    const double bar = group * 0.8 / double(contenders_.size());
    for (std::size_t r = 0; r < panel.rows.size(); ++r) {
      for (std::size_t c = 0; c < contenders_.size(); ++c)
        svg_ += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
            "fill=\"{}\"/>\n",
            left + group * (double(r) + 0.1) + bar * double(c),
            bottom - height_of(rate(*panel.rows[r], c)), bar * 0.92,
            height_of(rate(*panel.rows[r], c)), colours[c % colours.size()]);
      svg_ += text_at(left + group * (double(r) + 0.5), bottom + 14, 10, "middle",
                      fmt::format("{}", panel.rows[r]->shape.tokens));
    }
    svg_ += text_at(left + plot_width / 2.0, bottom + 29, 10, "middle", "tokens");
    svg_ += svg::horizontal(left, plot_width, bottom - height_of(peak),
                            "stroke=\"#222\" stroke-dasharray=\"5 4\"");
  }

  const CpuBenchReport& report_;
  std::vector<std::string> contenders_;
  std::string svg_;
};

}  // namespace

std::string to_svg(const CpuBenchReport& report) { return Chart(report).draw(); }

}  // namespace tilefold::bench
