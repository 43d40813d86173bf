// Small floating-point types: every code, every rounding.
#include "tilefold/dtype.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tilefold {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

template <class Small> struct Codes {
  static constexpr int count = 1 << bits_of(dtype_of_type<Small>::value);
};

template <class Small> class SmallFloat : public ::testing::Test {};
using SmallFloats = ::testing::Types<float16, bfloat16, float8_e4m3, float8_e5m2>;
TYPED_TEST_SUITE(SmallFloat, SmallFloats);

TYPED_TEST(SmallFloat, EveryFiniteCodeSurvivesTheWayOutAndBack) {
  for (int code = 0; code < Codes<TypeParam>::count; ++code) {
    TypeParam x;
    x.bits = decltype(x.bits)(code);
    const float wide = to_float(x);
    if (!std::isfinite(wide)) continue;
    EXPECT_EQ(round_to<TypeParam>(wide).bits, x.bits) << "code " << code << " is " << wide;
  }
}

TYPED_TEST(SmallFloat, RoundsToTheNearestAndTiesToEven) {
  for (int code = 0; code + 1 < Codes<TypeParam>::count / 2; ++code) {
    TypeParam low, high;
    low.bits = decltype(low.bits)(code);
    high.bits = decltype(high.bits)(code + 1);
    const double a = to_float(low), b = to_float(high);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    const auto middle = float((a + b) / 2);
    if (double(middle) != (a + b) / 2) continue;  // the tie itself is no float: no tie to test
    EXPECT_EQ(round_to<TypeParam>(middle).bits, code % 2 == 0 ? low.bits : high.bits) << middle;
    EXPECT_EQ(round_to<TypeParam>(std::nextafterf(middle, 0.0f)).bits, low.bits) << middle;
    EXPECT_EQ(round_to<TypeParam>(std::nextafterf(middle, infinity)).bits, high.bits) << middle;
    EXPECT_EQ(to_float(round_to<TypeParam>(-middle)), -to_float(round_to<TypeParam>(middle)));
  }
}

TYPED_TEST(SmallFloat, NaNStaysNaNWhateverItsPayload) {
  for (const std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xffffffffu, 0xff800001u}) {
    float nan;
    std::memcpy(&nan, &bits, sizeof nan);
    EXPECT_TRUE(std::isnan(to_float(round_to<TypeParam>(nan)))) << std::hex << bits;
  }
}

TEST(DType, OverflowGivesInfinityIn16BitsAndSaturatesIn8) {
  EXPECT_EQ(to_float(round_to<float16>(65519.9f)), 65504.0f);
  EXPECT_EQ(to_float(round_to<float16>(65520.0f)), infinity);
  EXPECT_EQ(to_float(round_to<bfloat16>(3.4e38f)), infinity);
  for (const float big : {448.0f, 464.0f, 1e9f, infinity}) {
    EXPECT_EQ(to_float(round_to<float8_e4m3>(big)), 448.0f) << big;
    EXPECT_EQ(to_float(round_to<float8_e4m3>(-big)), -448.0f) << big;
  }
  for (const float big : {57344.0f, 61440.0f, 1e9f, infinity})
    EXPECT_EQ(to_float(round_to<float8_e5m2>(big)), 57344.0f) << big;
}

TEST(DType, CountsItsCodes) {
  EXPECT_TRUE(std::isnan(to_float(float8_e4m3{0x7f})));
  EXPECT_TRUE(std::isnan(to_float(float8_e4m3{0xff})));
  EXPECT_EQ(to_float(float8_e4m3{0x78}), 256.0f);
  EXPECT_EQ(to_float(float8_e4m3{0x01}), 0x1p-9f);
  EXPECT_EQ(to_float(float8_e5m2{0x7c}), infinity);
  EXPECT_EQ(to_float(float16{0x0001}), 0x1p-24f);
  EXPECT_EQ(to_float(bfloat16{0x3dcd}), 0.10009765625f);
}

TEST(DType, NamesAreFoundAgain) {
  for (int i = 0; i <= int(DType::boolean); ++i)
    EXPECT_EQ(dtype_from_name(name(DType(i))), DType(i));
  EXPECT_EQ(dtype_from_name("float8_e4m3fn"), DType::e4m3);
  EXPECT_FALSE(dtype_from_name("f12"));
}

}  // namespace
}  // namespace tilefold
