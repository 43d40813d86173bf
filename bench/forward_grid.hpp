// The forward's grid out of results files: 16384 tokens, hidden size 2048, head dimensions, masks
// and lengths; ours and the peers'.
//
//   GridResults grid;
//   add_results(grid, read_text("forward.csv"), "forward.csv");
//   write_text("forward.svg", to_svg(grid));
#pragma once

#include <string>
#include <vector>

namespace tilefold::bench {

/// Tokens of a batch, and heads times head dimension, of every point.
inline constexpr int grid_tokens = 16384, grid_hidden = 2048;

struct GridPoint {
  std::string contender, dtype;  // "tilefold", "bf16"
  int head_dim, length;
  bool causal;
  double tflops;
};

struct GridResults {
  std::string origin;  // first comment of the first file: commit, device, date
  std::vector<GridPoint> points;
};

/// Adds the rows of the grid in a file of `bench forward --csv` or bench/peers/torch_sdpa.py, or of
/// bench/results/*-peers.csv; other rows stay out. Throws Error(file_format) that names `file` for
/// text that is no such file.
void add_results(GridResults& grid, const std::string& text, const std::string& file);

/// TFLOPS over the length: a panel a head dimension and mask, a line a contender. Throws
/// Error(file_format) of a grid without points.
std::string to_svg(const GridResults& grid);

}  // namespace tilefold::bench
