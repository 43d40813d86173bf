// Law: each option on each family of kernels is right, or refused with a reason. Where there is no
// device, CUDA's part is what was planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "support/option_matrix.hpp"

namespace tilefold::testing {
namespace {

using ::testing::ElementsAreArray;

std::set<std::string> refused(const OptionMatrix& matrix, const std::string& column) {
  std::set<std::string> options;
  for (std::size_t c = 0; c < matrix.columns.size(); ++c)
    for (const MatrixRow& row : matrix.rows)
      if (matrix.columns[c] == column && row.cells[c].answer() == CellAnswer::refused)
        options.insert(row.option);
  return options;
}

TEST(OptionMatrix, EveryCellIsRightPlannedOrRefusedWithAReason) {
  std::ostringstream report;
  MatrixOptions how;
  how.cases = 2;
  how.work = 5e4;
  const OptionMatrix matrix = option_matrix(how, report);
  EXPECT_EQ(matrix.count(CellAnswer::wrong), 0) << report.str();
  EXPECT_THAT(matrix.columns, ElementsAreArray({"cpu", "cuda sm90", "cuda sm80", "cuda any"}));
  for (const MatrixRow& row : matrix.rows)
    for (const MatrixCell& cell : row.cells)
      EXPECT_EQ(cell.reason.empty(), cell.refused == 0) << row.option;
  // No option is refused everywhere but those that nothing computes yet.
  EXPECT_THAT(refused(matrix, "cpu"),
              ElementsAreArray({"dtype: bf16 over i8", "dtype: f16 over i8",
                                "lengths on device: dense", "lengths on device: paged, list",
                                "lengths on device: paged, table", "lengths on device: ragged"}));
  EXPECT_THAT(refused(matrix, "cuda any"),
              ElementsAreArray({"dtype: bf16 over i8", "dtype: f16 over i8", "dtype: f64",
                                "mask: code", "score: options.score that is code"}));
  EXPECT_THAT(matrix.text(), ::testing::HasSubstr("[1] "));
}

}  // namespace
}  // namespace tilefold::testing
