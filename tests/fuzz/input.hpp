#pragma once
// A fuzzer's bytes, read as numbers and pieces; zeros once they are used up.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint8_t u8() {
    if (rest_.empty()) return 0;
    const std::uint8_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }
  std::uint16_t u16() {
    const auto high = u8();
    return static_cast<std::uint16_t>(high << 8 | u8());
  }
  std::uint32_t u32() {
    const std::uint32_t high = u16();
    return high << 16 | u16();
  }
  /// At most `n` bytes: what is there.
  std::span<const std::uint8_t> take(std::size_t n) {
    const auto piece = rest_.first(std::min(n, rest_.size()));
    rest_ = rest_.subspan(piece.size());
    return piece;
  }
  std::span<const std::byte> bytes(std::size_t n) { return std::as_bytes(take(n)); }
  template <class Array>
  void fill(Array& into) {
    const auto piece = take(into.size());
    std::copy(piece.begin(), piece.end(), reinterpret_cast<std::uint8_t*>(into.data()));
  }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace lockstep::fuzz
