// Element types of tensors, and the 16- and 8-bit floating-point numbers as C++ types.
//
//   tilefold::bfloat16 x = tilefold::round_to<tilefold::bfloat16>(0.1f);
//   float y = tilefold::to_float(x);                        // 0.10009765625
//   tilefold::bits_of(tilefold::DType::e4m3);               // 8
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace tilefold {

/// The element type of a tensor.
enum class DType : std::uint8_t { f64, f32, f16, bf16, e4m3, e5m2, i64, i32, i8, u8, boolean };

/// Bits of one element; a multiple of 8 for every type of today.
constexpr int bits_of(DType type) noexcept {
  switch (type) {
    case DType::f64:
    case DType::i64: return 64;
    case DType::f32:
    case DType::i32: return 32;
    case DType::f16:
    case DType::bf16: return 16;
    default: return 8;
  }
}
constexpr int bytes_of(DType type) noexcept { return bits_of(type) / 8; }

constexpr bool is_fp8(DType type) noexcept { return type == DType::e4m3 || type == DType::e5m2; }
constexpr bool is_float(DType type) noexcept { return type <= DType::e5m2; }
constexpr bool is_index(DType type) noexcept { return type == DType::i32 || type == DType::i64; }

/// "f32", "bf16", "e4m3", ...
const char* name(DType type) noexcept;
/// The inverse of name(); also takes "float32", "half", "bfloat16", "float8_e4m3fn" and the like.
std::optional<DType> dtype_from_name(std::string_view text) noexcept;

/// IEEE binary16: 5 exponent bits, 10 mantissa bits.
struct float16 {
  std::uint16_t bits;
};
/// The upper half of a binary32: 8 exponent bits, 7 mantissa bits.
struct bfloat16 {
  std::uint16_t bits;
};
/// OCP e4m3: no infinity, largest finite 448, NaN is 0x7f and 0xff.
struct float8_e4m3 {
  std::uint8_t bits;
};
/// OCP e5m2: infinities and NaNs as in IEEE, largest finite 57344.
struct float8_e5m2 {
  std::uint8_t bits;
};

/// Exact widening to binary32.
float to_float(float16 x) noexcept;
float to_float(float8_e4m3 x) noexcept;
float to_float(float8_e5m2 x) noexcept;
inline float to_float(bfloat16 x) noexcept {
  const std::uint32_t wide = std::uint32_t{x.bits} << 16;
  float y;
  std::memcpy(&y, &wide, sizeof y);
  return y;
}
inline float to_float(float x) noexcept { return x; }

/// Round to nearest, ties to even. Overflow: f16 and bf16 give infinity; the fp8 types saturate to
/// their largest finite value, infinities included. NaN stays NaN.
template <class T> T round_to(float x) noexcept;
template <> float16 round_to<float16>(float x) noexcept;
template <> bfloat16 round_to<bfloat16>(float x) noexcept;
template <> float8_e4m3 round_to<float8_e4m3>(float x) noexcept;
template <> float8_e5m2 round_to<float8_e5m2>(float x) noexcept;
template <> inline float round_to<float>(float x) noexcept { return x; }

/// The DType of a C++ element type; no value for types that are no element type.
template <class T> struct dtype_of_type;
template <> struct dtype_of_type<double> { static constexpr DType value = DType::f64; };
template <> struct dtype_of_type<float> { static constexpr DType value = DType::f32; };
template <> struct dtype_of_type<float16> { static constexpr DType value = DType::f16; };
template <> struct dtype_of_type<bfloat16> { static constexpr DType value = DType::bf16; };
template <> struct dtype_of_type<float8_e4m3> { static constexpr DType value = DType::e4m3; };
template <> struct dtype_of_type<float8_e5m2> { static constexpr DType value = DType::e5m2; };
template <> struct dtype_of_type<std::int64_t> { static constexpr DType value = DType::i64; };
template <> struct dtype_of_type<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct dtype_of_type<std::int8_t> { static constexpr DType value = DType::i8; };
template <> struct dtype_of_type<std::uint8_t> { static constexpr DType value = DType::u8; };
template <> struct dtype_of_type<bool> { static constexpr DType value = DType::boolean; };

template <class T>
concept Element = requires {
  dtype_of_type<T>::value;
};

}  // namespace tilefold
