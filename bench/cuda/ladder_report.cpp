// The ladder's report as a table, as CSV and as a chart.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/cuda/ladder_bench.hpp"
#include "bench/machine.hpp"
#include "bench/svg.hpp"

namespace tilefold::bench {

namespace {

namespace ladder = cuda::ladder;

const char* mask_name(const ladder::Shape& shape) {
  return shape.visible == ladder::Visible::causal ? "causal" : "all keys";
}

std::string shape_title(const ladder::Shape& s) {
  return fmt::format("batch {}, heads {}, {} tokens, head dimension {}, {}", s.batch, s.heads,
                     s.query_length, s.head_dim, mask_name(s));
}

bool same_panel(const ladder::Shape& a, const ladder::Shape& b) {
  return a.head_dim == b.head_dim && a.visible == b.visible;
}

std::string megabytes(double bytes) { return fmt::format("{:.1f}", bytes / 1e6); }

std::string table_line(const LadderRow& row) {
  const std::string head = fmt::format("{:<20} {:>4} ", row.rung.name, name(row.rung.element));
  const std::string tail = fmt::format("{:>6}  {}", row.rung.code_lines, row.rung.adds);
  if (!row.refused.empty()) return fmt::format("{} {}\n", head, row.refused);
  return fmt::format("{}{:>10.3f} {:>8.2f} {:>11} {:>11} {:>11} {:>9.1e} {}\n", head,
                     row.milliseconds, row.tflops(), megabytes(double(row.workspace_bytes)),
                     megabytes(double(row.traffic.compulsory)),
                     megabytes(double(row.traffic.requested)), row.max_error, tail);
}

// A field with a comma or a quote, as RFC 4180 wants it.
std::string quoted(std::string_view text) {
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? "\"\"" : std::string(1, c);
  return field + "\"";
}

constexpr int panel_width = 420, panel_height = 250, plot_left = 46, plot_top = 34;
constexpr int plot_width = panel_width - plot_left - 12, plot_height = panel_height - plot_top - 40;
constexpr int title_height = 66, columns = 2;
// Told apart by lightness too: readable in grey and with weak colour vision.
constexpr std::array colours = {"#bbbbbb", "#8fb8de", "#93c47d", "#e69138", "#6d9eeb", "#3d6fb4",
                                "#c27ba0", "#a64d79", "#0b5394", "#20324d", "#7f6000", "#38761d"};

using svg::text_at;

/// Bars on a logarithmic scale, 0.1 TFLOPS at the bottom: the rungs span four powers of ten.
class LadderChart {
 public:
  explicit LadderChart(const LadderReport& report) : report_(report) {
    for (const LadderRow& row : report.rows) {
      if (std::find(names_.begin(), names_.end(), row.rung.name) == names_.end())
        names_.push_back(row.rung.name);
      const auto same = [&](const LadderRow* first) { return same_panel(first->shape, row.shape); };
      if (std::none_of(panels_.begin(), panels_.end(), same)) panels_.push_back(&row);
      top_ = std::max(top_, row.tflops());
    }
  }

  std::string draw() {
    const int lines = (int(panels_.size()) + columns - 1) / columns;
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" fill=\"#222\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        columns * panel_width, title_height + lines * panel_height);
    svg_ += text_at(12, 20, 15, "start", "The ladder: TFLOPS by sequence length");
    svg_ += text_at(
        12, 37, 11, "start",
        fmt::format("{}, {}, commit {}; logarithmic scale", report_.device, today(), commit()));
    double x = 12;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      svg_ += fmt::format("<rect x=\"{:.1f}\" y=\"46\" width=\"10\" height=\"10\" fill=\"{}\"/>\n",
                          x, colours[i % colours.size()]);
      svg_ += text_at(x + 14, 55, 11, "start", std::string(names_[i]));
      x += 30 + 6.4 * double(names_[i].size());
    }
    for (std::size_t i = 0; i < panels_.size(); ++i)
      panel(panels_[i]->shape, int(i) % columns * panel_width,
            title_height + int(i) / columns * panel_height);
    return svg_ + "</svg>\n";
  }

 private:
  static constexpr double bottom_rate = 0.1;

  double height_of(double rate) const {
    const double span = std::log10(std::max(top_ * 1.1, 1.0) / bottom_rate);
    return std::max(0.0, std::log10(std::max(rate, bottom_rate) / bottom_rate) / span) *
           plot_height;
  }

  void panel(const ladder::Shape& of, int x, int y) {
    const double left = x + plot_left, bottom = y + plot_top + plot_height;
    svg_ += text_at(left, y + 22, 12, "start",
                    fmt::format("head dimension {}, {}", of.head_dim, mask_name(of)));
    for (double rate = bottom_rate; rate <= top_; rate *= 10) {
      svg_ += svg::horizontal(left, plot_width, bottom - height_of(rate), "stroke=\"#ddd\"");
      svg_ += text_at(left - 5, bottom - height_of(rate) + 4, 10, "end", fmt::format("{:g}", rate));
    }
    std::vector<int> lengths;
    for (const LadderRow& row : report_.rows)
      if (same_panel(row.shape, of) &&
          std::find(lengths.begin(), lengths.end(), row.shape.query_length) == lengths.end())
        lengths.push_back(row.shape.query_length);
    const double group = double(plot_width) / double(lengths.size());
    const double bar = group * 0.86 / double(names_.size());
    for (std::size_t g = 0; g < lengths.size(); ++g)
      svg_ += text_at(left + group * (double(g) + 0.5), bottom + 14, 10, "middle",
                      fmt::format("{}", lengths[g]));
    for (const LadderRow& row : report_.rows) {
      if (!same_panel(row.shape, of) || row.milliseconds <= 0) continue;
      const auto g = std::find(lengths.begin(), lengths.end(), row.shape.query_length);
      const auto i = std::find(names_.begin(), names_.end(), row.rung.name) - names_.begin();
      const double at = left + group * (double(g - lengths.begin()) + 0.07) + bar * double(i);
      svg_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
          "fill=\"{}\"/>\n",
          at, bottom - height_of(row.tflops()), bar * 0.94, height_of(row.tflops()),
          colours[std::size_t(i) % colours.size()]);
    }
    svg_ += text_at(left + plot_width / 2.0, bottom + 29, 10, "middle", "tokens");
  }

  const LadderReport& report_;
  std::vector<std::string_view> names_;
  std::vector<const LadderRow*> panels_;  // the first row of each
  double top_ = 1;
  std::string svg_;
};

}  // namespace

std::string to_table(const LadderReport& report) {
  std::string text = fmt::format("{}, median of up to {} launches behind a spinning kernel\n",
                                 report.device, report.options.runs);
  const LadderRow* previous = nullptr;
  for (const LadderRow& row : report.rows) {
    if (previous == nullptr || !same_panel(previous->shape, row.shape) ||
        previous->shape.query_length != row.shape.query_length)
      text += fmt::format("\n{}\n{:<20} {:>4} {:>10} {:>8} {:>11} {:>11} {:>11} {:>9} {:>6}  {}\n",
                          shape_title(row.shape), "rung", "type", "ms", "TFLOPS", "workspace",
                          "once MB", "asked MB", "error", "lines", "adds");
    text += table_line(row);
    previous = &row;
  }
  return text +
         "\nerror: largest difference from float64 over 48 sampled rows; workspace in MB; once: "
         "bytes "
         "to device memory with an ideal L2;\nasked: bytes that all SMs ask for; lines: of the "
         "kernel's own file, comments and blank lines aside\n";
}

std::string csv_head(const std::string& device, const std::string& command) {
  return fmt::format("# {}\n# {}, {}, commit {}\n", command, device, today(), commit()) +
         "rung,dtype,batch,heads,hdim,seqlen_q,seqlen_k,causal,ms,fastest_ms,slowest_ms,runs,"
         "tflops,"
         "workspace_bytes,once_bytes,asked_bytes,max_error,max_reference,lines,refused,adds\n";
}

std::string csv_line(const LadderRow& row) {
  const ladder::Shape& s = row.shape;
  std::string text =
      fmt::format("{},{},{},{},{},{},{},{},{:.4f},{:.4f},{:.4f},{},{:.3f},", row.rung.name,
                  name(row.rung.element), s.batch, s.heads, s.head_dim, s.query_length,
                  s.key_length, s.visible == ladder::Visible::causal ? 1 : 0, row.milliseconds,
                  row.fastest, row.slowest, row.runs, row.tflops());
  return text + fmt::format("{},{},{},{:.3e},{:.3e},{},{},{}\n", row.workspace_bytes,
                            row.traffic.compulsory, row.traffic.requested, row.max_error,
                            row.max_reference, row.rung.code_lines, quoted(row.refused),
                            quoted(row.rung.adds));
}

std::string to_svg(const LadderReport& report) { return LadderChart(report).draw(); }

}  // namespace tilefold::bench
