// Law: the chart shows every point of the grid that the files hold, and nothing else of them.
#include "bench/forward_grid.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "bench/text_file.hpp"
#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

using ::testing::HasSubstr;

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

GridResults grid_of(const std::string& text) {
  GridResults grid;
  add_results(grid, text, "f.csv");
  return grid;
}

std::string refusal_of(const std::string& text) {
  try {
    to_svg(grid_of(text));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::file_format);
    return error.what();
  }
}

/// As scripts/forward_doc.py takes it: names begin with their date.
std::string newest_results() {
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator(TILEFOLD_RESULTS))
    if (const std::string name = entry.path().filename().string();
        name.ends_with("-h200-forward.csv"))
      newest = std::max(newest, name);
  return newest;
}

TEST(ForwardGrid, TheNewestResultsGiveTheCommittedChart) {
  const std::string file = newest_results();
  const GridResults grid = grid_of(read_text(TILEFOLD_RESULTS + file));
  EXPECT_EQ(grid.points.size(), 3u * 36u) << "tilefold, cuDNN, FlashAttention-2";
  const std::string drawn = to_svg(grid);
  EXPECT_EQ(count_of(drawn, "<polyline"), 3 * 6 + 3) << "a line a panel, and the legend";
  EXPECT_THAT(drawn, HasSubstr("NVIDIA H200, " + file.substr(0, 10) + ", commit "));
  EXPECT_THAT(drawn, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_EQ(drawn, read_text(TILEFOLD_IMAGES "forward.svg"))
      << "draw it again: build/tilefold bench chart bench/results/" << file
      << " --svg docs/images/forward.svg";
}

TEST(ForwardGrid, PeersOfAnotherFileJoin) {
  GridResults grid = grid_of(read_text(TILEFOLD_RESULTS "2026-11-30-h200-forward.csv"));
  add_results(grid, read_text(TILEFOLD_RESULTS "2026-11-30-h200-torch_sdpa.csv"), "torch.csv");
  EXPECT_EQ(grid.points.size(), 5u * 36u);
  EXPECT_THAT(to_svg(grid), HasSubstr(">cudnn</text>"));
  GridResults others = grid_of(read_text(TILEFOLD_RESULTS "2026-11-30-h200-peers.csv"));
  EXPECT_EQ(others.points.size(), 2u * 36u) << "cuDNN and FlashAttention-3 of another run";
}

const std::string head =
    "peer,mode,op,dtype,batch,heads_q,heads_kv,hdim,seqlen_q,causal,window,rate\n";

TEST(ForwardGrid, OtherRowsStayOut) {
  const std::string grid_row = "tilefold,queued,forward,bf16,32,16,16,128,512,0,0,500\n";
  for (const char* other :
       {"tilefold,single,forward,bf16,32,16,16,128,512,0,0,500\n",
        "tilefold,queued,forward,bf16,32,32,8,128,512,0,0,500\n",
        "tilefold,queued,forward,bf16,1,16,16,128,32768,1,0,500\n",
        "tilefold,queued,forward,bf16,32,16,16,128,512,0,4095,500\n",
        "tilefold,queued,forward_ragged,bf16,30,16,16,128,0,0,0,500\n", "# a refusal\n"}) {
    EXPECT_EQ(grid_of(head + grid_row + other).points.size(), 1u) << other;
    EXPECT_THAT(refusal_of(head + other), HasSubstr("no row is of the grid")) << other;
  }
  EXPECT_EQ(grid_of(head + grid_row + grid_row).points.size(), 1u) << "the later of two";
}

TEST(ForwardGrid, RefusesWhatIsNoResultsFile) {
  EXPECT_THAT(refusal_of(""), HasSubstr("f.csv: it holds no results"));
  EXPECT_THAT(refusal_of("hello\n"), HasSubstr("f.csv: line 1 begins with 'hello'"));
  EXPECT_THAT(refusal_of("peer,ms\ntilefold,3\n"), HasSubstr("f.csv: line 2: it has no dtype"));
  EXPECT_THAT(refusal_of(head + "tilefold,queued,forward,bf16,x,16,16,128,512,0,0,500\n"),
              HasSubstr("f.csv: line 2: batch is 'x'"));
  EXPECT_THAT(refusal_of(head + "tilefold,queued,forward,bf16,32,16,16,128,512,0,0,nan\n"),
              HasSubstr("rate is 'nan'"));
}

}  // namespace

}  // namespace tilefold::bench
