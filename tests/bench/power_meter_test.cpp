// Law: power is what NVML says of this card, and nothing where there is no NVML or no such card.
#include "bench/cuda/power_meter.hpp"

#include <gtest/gtest.h>

namespace tilefold::bench {

namespace {

TEST(PowerMeter, ReadsTheInstantFieldAndElseTheMean) {
  EXPECT_EQ(PowerMeter("0000:01:00.0", TILEFOLD_NVML).watts(), 512.5);
  EXPECT_EQ(PowerMeter("0000:02:00.0", TILEFOLD_NVML).watts(), 300.0);
}

TEST(PowerMeter, ReadsNothingWhereNothingIs) {
  EXPECT_EQ(PowerMeter("0000:03:00.0", TILEFOLD_NVML).watts(), std::nullopt);
  EXPECT_EQ(PowerMeter("0000:01:00.0", "libnosuch.so.1").watts(), std::nullopt);
}

}  // namespace

}  // namespace tilefold::bench
