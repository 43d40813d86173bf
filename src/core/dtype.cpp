#include "tilefold/dtype.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tilefold {

namespace {

struct DTypeName {
  std::string_view text;
  DType type;
};
// The first name of each type is the one that is printed.
constexpr DTypeName dtype_names[] = {
    {"f64", DType::f64},
    {"f32", DType::f32},
    {"f16", DType::f16},
    {"bf16", DType::bf16},
    {"e4m3", DType::e4m3},
    {"e5m2", DType::e5m2},
    {"i64", DType::i64},
    {"i32", DType::i32},
    {"i8", DType::i8},
    {"u8", DType::u8},
    {"bool", DType::boolean},
    {"float64", DType::f64},
    {"double", DType::f64},
    {"float32", DType::f32},
    {"float", DType::f32},
    {"float16", DType::f16},
    {"half", DType::f16},
    {"bfloat16", DType::bf16},
    {"float8_e4m3fn", DType::e4m3},
    {"float8_e4m3", DType::e4m3},
    {"float8_e5m2", DType::e5m2},
    {"int64", DType::i64},
    {"int32", DType::i32},
    {"int8", DType::i8},
    {"uint8", DType::u8},
    {"boolean", DType::boolean},
};

// A small binary floating-point format: sign, exponent and mantissa widths. `finite_top` formats
// (e4m3) use the largest exponent for numbers too and keep one code, all ones, for NaN.
struct SmallFormat {
  int exponent_bits, mantissa_bits;
  bool finite_top;
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
constexpr SmallFormat half_format{5, 10, false};
constexpr SmallFormat e4m3_format{4, 3, true};
constexpr SmallFormat e5m2_format{5, 2, false};

float decode(std::uint32_t code, SmallFormat format) {
  const std::uint32_t exponent_mask = (1u << format.exponent_bits) - 1;
  const std::uint32_t mantissa_mask = (1u << format.mantissa_bits) - 1;
  const std::uint32_t exponent = (code >> format.mantissa_bits) & exponent_mask;
  const std::uint32_t mantissa = code & mantissa_mask;
  const bool negative = (code >> (format.exponent_bits + format.mantissa_bits)) & 1;
  float magnitude;
  if (exponent == exponent_mask && (!format.finite_top || mantissa == mantissa_mask)) {
    magnitude = mantissa == 0 && !format.finite_top ? std::numeric_limits<float>::infinity()
                                                    : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(float(mantissa), 1 - format.bias() - format.mantissa_bits);
  } else {
    magnitude = std::ldexp(float(mantissa | (mantissa_mask + 1)),
                           int(exponent) - format.bias() - format.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

// The code of |x| rounded to nearest even, without the sign; `largest` is the code of the largest
// finite number, `overflow` the code that anything that rounds past it becomes.
std::uint32_t encode(float magnitude, SmallFormat format, std::uint32_t largest,
                     std::uint32_t overflow) {
  if (std::isinf(magnitude)) return overflow;
  if (magnitude == 0) return 0;  // frexp gives zero an exponent of its own
  // One step of the format at this magnitude is 2^step: its exponent, or that of the subnormals.
  int exponent;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
  const int lowest = 1 - format.bias();
  const int step = std::max(exponent - 1, lowest) - format.mantissa_bits;
  // At most 2^(mantissa_bits + 1): exact in float; nearbyint rounds ties to even.
  const auto steps = std::uint32_t(std::nearbyint(std::ldexp(magnitude, -step)));
  // Codes are consecutive across exponents, so a carry into the next exponent needs no care.
  const std::uint32_t base = std::uint32_t(step + format.mantissa_bits - lowest)
                             << format.mantissa_bits;
  const std::uint32_t code = base + steps;
  return code > largest ? overflow : code;
}

template <std::size_t codes> std::array<float, codes> decode_table(SmallFormat format) {
  std::array<float, codes> table{};
  for (std::size_t code = 0; code < codes; ++code)
    table[code] = decode(std::uint32_t(code), format);
  return table;
}

}  // namespace

const char* name(DType type) noexcept {
  for (const DTypeName& entry : dtype_names)
    if (entry.type == type) return entry.text.data();
  return "unknown";
}

std::optional<DType> dtype_from_name(std::string_view text) noexcept {
  for (const DTypeName& entry : dtype_names)
    if (entry.text == text) return entry.type;
  return std::nullopt;
}

float to_float(float16 x) noexcept { return decode(x.bits, half_format); }
float to_float(float8_e4m3 x) noexcept {
  static const auto table = decode_table<256>(e4m3_format);
  return table[x.bits];
}
float to_float(float8_e5m2 x) noexcept {
  static const auto table = decode_table<256>(e5m2_format);
  return table[x.bits];
}

template <> float16 round_to<float16>(float x) noexcept {
  const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
  if (std::isnan(x)) return {std::uint16_t(sign | 0x7e00u)};
  return {std::uint16_t(sign | encode(std::fabs(x), half_format, 0x7bffu, 0x7c00u))};
}

template <> bfloat16 round_to<bfloat16>(float x) noexcept {
  std::uint32_t wide;
  std::memcpy(&wide, &x, sizeof wide);
  // A NaN whose payload lies in the lower half would round to infinity: set the quiet bit instead.
  if (std::isnan(x)) return {std::uint16_t((wide >> 16) | 0x0040u)};
  return {std::uint16_t((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16)};
}

template <> float8_e4m3 round_to<float8_e4m3>(float x) noexcept {
  const std::uint32_t sign = std::signbit(x) ? 0x80u : 0u;
  if (std::isnan(x)) return {std::uint8_t(sign | 0x7fu)};
  return {std::uint8_t(sign | encode(std::fabs(x), e4m3_format, 0x7eu, 0x7eu))};
}

template <> float8_e5m2 round_to<float8_e5m2>(float x) noexcept {
  const std::uint32_t sign = std::signbit(x) ? 0x80u : 0u;
  if (std::isnan(x)) return {std::uint8_t(sign | 0x7eu)};
  return {std::uint8_t(sign | encode(std::fabs(x), e5m2_format, 0x7bu, 0x7bu))};
}

}  // namespace tilefold
