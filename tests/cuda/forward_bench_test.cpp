// What forward_bench derives without a device: where keys stand, what is counted, which candidates
// there are.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "bench/cuda/forward/problem.hpp"
#include "bench/cuda/sm80_candidates.hpp"
#include "cuda/kernels/sm80/registry.hpp"

namespace tilefold::bench {

namespace {

using forward::Shape;

TEST(ForwardBench, EveryKeyOfAPoolStandsAloneAndOffPageZero) {
  for (int page_size : {1, 7, 16}) {
    Shape s{3, 1, 20, 2, 1, 64, 64};
    s.page_size = page_size;
    std::set<std::size_t> rows;
    for (int b = 0; b < s.batch; ++b)
      for (int j = 0; j < s.key_length; ++j) {
        const std::size_t row = s.key_row(b, j);
        EXPECT_GE(row, std::size_t(page_size));
        EXPECT_LT(row, s.key_rows());
        EXPECT_TRUE(rows.insert(row).second) << "page size " << page_size << ", key " << j;
      }
  }
}

TEST(ForwardBench, CausalCountsHalfOfTheFlops) {
  Shape s{2, 1024, 1024, 16, 16, 128, 128};
  const double dense = s.flops();
  EXPECT_EQ(dense, 4.0 * 2 * 16 * 1024 * 1024 * 128);
  s.high = 0;
  EXPECT_EQ(s.flops(), dense / 2);
}

std::string parts_of(const cuda::sm80::ForwardConfig& c) {
  std::string text;
  for (int part :
       {c.head_dim, c.value_dim, c.warps, c.row_blocks, c.tile_keys, c.stages, int(c.query),
        int(c.keys), int(c.formula), int(c.type), c.blocks_per_sm, int(c.share)})
    text += std::to_string(part) + " ";
  return text;
}

TEST(ForwardBench, CandidatesFitTheirBlockAndStandNowhereElse) {
  std::set<std::string> tiles;
  for (int index = 0; index < cuda::sm80::registry_size; ++index)
    tiles.insert(parts_of(cuda::sm80::registry(index)));
  for (int index = 0; index < sm80_candidate_count; ++index) {
    const cuda::sm80::ForwardConfig c = sm80_candidate(index);
    EXPECT_TRUE(c.valid()) << "candidate " << index << ": " << parts_of(c);
    EXPECT_TRUE(tiles.insert(parts_of(c)).second) << "candidate " << index << ": " << parts_of(c);
  }
}

}  // namespace

}  // namespace tilefold::bench
