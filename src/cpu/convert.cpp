// Conversion of rows between element types, for every Highway target.
#include "cpu/convert.hpp"

#include <cstring>

#include "cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tilefold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using Vector = hn::Vec<Floats>;

// Each Widen reads one vector of stored elements and returns the same numbers in f32.
HWY_INLINE Vector Widen(const float* from) { return hn::LoadU(Floats(), from); }
HWY_INLINE Vector Widen(const bfloat16* from) {
  const hn::Rebind<std::uint16_t, Floats> half;
  const auto bits = hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), bits)));
}
// A small code's exponent and mantissa, shifted to f32's fields, are its number times 2^(bias -
// 127); one multiplication by the inverse power repairs that exactly, small codes (f32 denormals)
// included. `lowest_special` is the first code, without sign, of infinities and NaNs: those keep
// their mantissa under f32's own top exponent.
template <int Bits, int MantissaBits>
HWY_INLINE Vector WidenCode(hn::Vec<Words> code, float power, std::uint32_t lowest_special) {
  const auto size_bits = hn::Set(Words(), (1u << (Bits - 1)) - 1);
  const auto size = hn::And(code, size_bits);
  const auto sign = hn::BitCast(Floats(), hn::ShiftLeft<32 - Bits>(hn::AndNot(size_bits, code)));
  const auto fields = hn::ShiftLeft<23 - MantissaBits>(size);
  const auto number = hn::Mul(hn::BitCast(Floats(), fields), hn::Set(Floats(), power));
  const auto special = hn::BitCast(Floats(), hn::Or(fields, hn::Set(Words(), 0x7f800000u)));
  const auto is_special =
      hn::RebindMask(Floats(), hn::Gt(size, hn::Set(Words(), lowest_special - 1)));
  return hn::Or(hn::IfThenElse(is_special, special, number), sign);
}
template <class Code, class T> HWY_INLINE hn::Vec<Words> LoadCodes(const T* from) {
  const hn::Rebind<Code, Floats> d;
  return hn::PromoteTo(Words(), hn::LoadU(d, reinterpret_cast<const Code*>(from)));
}
HWY_INLINE Vector Widen(const float8_e4m3* from) {  // one special code: NaN, all bits set
  return WidenCode<8, 3>(LoadCodes<std::uint8_t>(from), 0x1p120f, 0x7fu);
}
HWY_INLINE Vector Widen(const float8_e5m2* from) {
  return WidenCode<8, 2>(LoadCodes<std::uint8_t>(from), 0x1p112f, 0x7cu);
}

// Where the target has no f16 instructions Highway 1.0.3 emulates them without infinities, NaNs and
// the sign of zero.
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
HWY_INLINE Vector Widen(const float16* from) {
  return WidenCode<16, 10>(LoadCodes<std::uint16_t>(from), 0x1p112f, 0x7c00u);
}
HWY_INLINE void Put(Vector x, float16* to) {
  alignas(64) float lane[hn::MaxLanes(Floats())];
  hn::Store(x, Floats(), lane);
  for (std::size_t i = 0; i < hn::Lanes(Floats()); ++i) to[i] = round_to<float16>(lane[i]);
}
#else
HWY_INLINE Vector Widen(const float16* from) {
  const hn::Rebind<std::uint16_t, Floats> half;
  const hn::Rebind<hwy::float16_t, Floats> number;
  const auto bits = hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(from));
  return hn::PromoteTo(Floats(), hn::BitCast(number, bits));
}
HWY_INLINE void Put(Vector x, float16* to) {
  const hn::Rebind<hwy::float16_t, Floats> number;
  const hn::Rebind<std::uint16_t, Floats> half;
  hn::StoreU(hn::BitCast(half, hn::DemoteTo(number, x)), half,
             reinterpret_cast<std::uint16_t*>(to));
}
#endif

// One vector of f32 into each element type.
HWY_INLINE void Put(Vector x, float* to) { hn::StoreU(x, Floats(), to); }
HWY_INLINE void Put(Vector x, double* to) {  // not a hot path: f64 problems store f64
  alignas(64) float lane[hn::MaxLanes(Floats())];
  hn::Store(x, Floats(), lane);
  for (std::size_t i = 0; i < hn::Lanes(Floats()); ++i) to[i] = double(lane[i]);
}
HWY_INLINE void Put(Vector x, bfloat16* to) {
  const hn::Rebind<std::uint16_t, Floats> half;
  const auto bits = hn::BitCast(Words(), x);
  // Round to nearest even: add 0x7fff and the bit that becomes the last one. A NaN, to which that
  // would carry, becomes quiet instead.
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(Words(), 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(Words(), 0x7fffu)));
  const auto quiet = hn::Or(bits, hn::Set(Words(), 0x00400000u));
  const auto chosen = hn::IfThenElse(hn::RebindMask(Words(), hn::Eq(x, x)), rounded, quiet);
  hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<16>(chosen)), half,
             reinterpret_cast<std::uint16_t*>(to));
}
// The last elements of a row pass through buffers of one vector, so that no element past the row is
// read and every element takes the same path.
template <class From, class To>
void ConvertAll(const void* from, void* to, std::int64_t count, float factor) {
  const From* source = static_cast<const From*>(from);
  To* target = static_cast<To*>(to);
  const std::int64_t step = std::int64_t(hn::Lanes(Floats()));
  const Vector f = hn::Set(Floats(), factor);
  std::int64_t i = 0;
  for (; i + step <= count; i += step) Put(hn::Mul(Widen(source + i), f), target + i);
  if (i >= count) return;
  From tail_from[HWY_MAX_BYTES / sizeof(float)] = {};
  To tail_to[HWY_MAX_BYTES / sizeof(float)];
  std::memcpy(tail_from, source + i, std::size_t(count - i) * sizeof(From));
  Put(hn::Mul(Widen(tail_from), f), tail_to);
  std::memcpy(target + i, tail_to, std::size_t(count - i) * sizeof(To));
}

template <class To>
void ConvertFrom(DType from_type, const void* from, void* to, std::int64_t count, float factor) {
  switch (from_type) {
    case DType::f32: return ConvertAll<float, To>(from, to, count, factor);
    case DType::f16: return ConvertAll<float16, To>(from, to, count, factor);
    case DType::bf16: return ConvertAll<bfloat16, To>(from, to, count, factor);
    case DType::e4m3: return ConvertAll<float8_e4m3, To>(from, to, count, factor);
    case DType::e5m2: return ConvertAll<float8_e5m2, To>(from, to, count, factor);
    default: return;
  }
}
void Convert(DType from_type, const void* from, DType to_type, void* to, std::int64_t count,
             float factor) {
  switch (to_type) {
    case DType::f32: return ConvertFrom<float>(from_type, from, to, count, factor);
    case DType::f64: return ConvertFrom<double>(from_type, from, to, count, factor);
    case DType::bf16: return ConvertFrom<bfloat16>(from_type, from, to, count, factor);
    case DType::f16: return ConvertFrom<float16>(from_type, from, to, count, factor);
    default: return;
  }
}

}  // namespace tilefold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilefold::cpu {

HWY_EXPORT(Convert);

void convert_row(DType from_type, const void* from, DType to_type, void* to, std::int64_t count,
                 float factor) {
  if (from_type == to_type && factor == 1.0f) {
    std::memcpy(to, from, std::size_t(count) * std::size_t(bytes_of(to_type)));
  } else if (from_type == DType::f64) {
    const double* source = static_cast<const double*>(from);
    if (to_type == DType::f64) {
      for (std::int64_t i = 0; i < count; ++i)
        static_cast<double*>(to)[i] = source[i] * double(factor);
    } else {
      store_row(source, to_type, to, count);
    }
  } else {
    HWY_DYNAMIC_DISPATCH(Convert)(from_type, from, to_type, to, count, factor);
  }
}

void store_row(const float* from, DType to_type, void* to, std::int64_t count) {
  convert_row(DType::f32, from, to_type, to, count, 1.0f);
}

// f64 results leave as f64 or f32; the 16-bit types, which no caller asks for, take two roundings.
void store_row(const double* from, DType to_type, void* to, std::int64_t count) {
  if (to_type == DType::f64) {
    std::memcpy(to, from, std::size_t(count) * sizeof(double));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const float narrow = float(from[i]);
    convert_row(DType::f32, &narrow, to_type, static_cast<char*>(to) + i * bytes_of(to_type), 1,
                1.0f);
  }
}

}  // namespace tilefold::cpu
#endif
