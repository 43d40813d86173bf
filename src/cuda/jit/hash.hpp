// FNV-1a of 128 bits: names of cache entries and their checksums. It guards against chance, not
// against malice: who looks an entry up compares its whole key.
//
//   Hash().add(text.data(), text.size()).text()   // 32 hexadecimal digits
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tilefold::cuda::jit {

class Hash {
 public:
  Hash& add(const void* bytes, std::size_t count) {
    const auto* byte = static_cast<const unsigned char*>(bytes);
    for (std::size_t i = 0; i < count; ++i) {
      low_ ^= byte[i];
      multiply_by_prime();
    }
    return *this;
  }
  std::string text() const {
    std::string digits(32, '0');
    for (int i = 0; i < 32; ++i) {
      const std::uint64_t half = i < 16 ? high_ : low_;
      digits[std::size_t(i)] = "0123456789abcdef"[half >> (60 - 4 * (i % 16)) & 15];
    }
    return digits;
  }
  std::uint64_t high() const { return high_; }
  std::uint64_t low() const { return low_; }
  friend bool operator==(const Hash&, const Hash&) = default;

 private:
  // The prime is 2^88 + 0x13b. Modulo 2^128 the first term moves the lowest 40 bits only; the high
  // word of low_ * 0x13b is summed from two halves, since 9 bits times 32 bits fit into 64.
  void multiply_by_prime() {
    const std::uint64_t moved = low_ << 24;
    const std::uint64_t lower = (low_ & 0xffffffffu) * 0x13b;
    const std::uint64_t upper = (low_ >> 32) * 0x13b + (lower >> 32);
    high_ = high_ * 0x13b + (upper >> 32) + moved;
    low_ = upper << 32 | (lower & 0xffffffffu);
  }
  std::uint64_t high_ = 0x6c62272e07bb0142, low_ = 0x62b821756295c58d;
};

}  // namespace tilefold::cuda::jit
