// Where elements of a 128-byte-swizzled tile lie, and what the descriptors say of it.
#include "cuda/tile/matrix_descriptor.cuh"

#include <gtest/gtest.h>

#include <set>

namespace tilefold::cuda {
namespace {

constexpr int rows = 128;

/// The byte before the swizzle: groups of 64 columns, rows of 128 bytes.
int plain_byte(int row, int column) {
  return column / 64 * rows * 128 + row * 128 + column % 64 * 2;
}

TEST(SwizzledTile128, IsTheXorThatTheHardwareMakes) {
  // TMA and wgmma XOR address bits 4 to 6 with bits 7 to 9, of tiles that start at multiples of
  // 1024.
  std::set<int> bytes;
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < 128; ++column) {
      const int plain = plain_byte(row, column), place = swizzled_byte(row, column, rows);
      EXPECT_EQ(place, plain ^ (plain >> 7 & 7) << 4) << "row " << row << ", column " << column;
      bytes.insert(place);
    }
  EXPECT_EQ(int(bytes.size()), rows * 128) << "two elements share a place";
}

TEST(SwizzledTile128, EightRowsOfOneChunkLieInEightBankGroups) {
  for (int first = 0; first < rows; first += 8)
    for (int chunk = 0; chunk < 8; ++chunk) {
      std::set<int> groups;
      for (int row = first; row < first + 8; ++row)
        groups.insert(swizzled_byte(row, 8 * chunk, rows) / 16 % 8);
      EXPECT_EQ(int(groups.size()), 8) << "rows from " << first << ", chunk " << chunk;
    }
}

unsigned long long bits(unsigned long long descriptor, int first, int count) {
  return descriptor >> first & ((1ull << count) - 1);
}

TEST(MatrixDescriptor, HasTheFieldsOfTheManual) {
  const unsigned address =
      0x2c400;  // past 2^17: the address field holds 18 bits without the last 4
  const auto key = MatrixDescriptor::k_major(address);
  EXPECT_EQ(bits(key.bits, 0, 14), address / 16);
  EXPECT_EQ(bits(key.bits, 32, 14), 1024u / 16) << "8 rows further";
  EXPECT_EQ(bits(key.bits, 49, 3), 0u) << "base offset";
  EXPECT_EQ(bits(key.bits, 62, 2), 1u) << "128-byte swizzle";
  const auto value = MatrixDescriptor::mn_major(address, 176);
  EXPECT_EQ(bits(value.bits, 16, 14), 176u * 128 / 16) << "the next 64 columns";
  EXPECT_EQ(bits(value.bits, 32, 14), 1024u / 16) << "8 keys further";
  // Bits that no field owns stay 0.
  EXPECT_EQ(key.bits & 0x3ff1c000c000c000ull & ~(3ull << 62), 0u);
}

TEST(MatrixDescriptor, StepsStandWhereTheElementsLie) {
  const auto tile = MatrixDescriptor::k_major(0x4000);
  for (int step = 0; step < 128 / 16; ++step)
    EXPECT_EQ(bits(tile.at_columns(step, rows).bits, 0, 14) * 16,
              0x4000u + unsigned(plain_byte(0, 16 * step)))
        << step;
  const auto value = MatrixDescriptor::mn_major(0x4000, rows);
  for (int step = 0; step < rows / 16; ++step)
    EXPECT_EQ(bits(value.at_rows(step).bits, 0, 14) * 16,
              0x4000u + unsigned(plain_byte(16 * step, 0)))
        << step;
}

}  // namespace
}  // namespace tilefold::cuda
