#pragma once
// Sequence numbers that wrap (RFC 1982 with 32 bits, as RFC 7143 4.2.2 wants it for CmdSN, StatSN and DataSN). There is
// no operator<: "before" holds only between numbers less than 2^31 apart.
#include <cstdint>

namespace lockstep::iscsi {

class Serial {
 public:
  constexpr Serial() = default;
  constexpr explicit Serial(std::uint32_t value) : value_(value) {}

  [[nodiscard]] constexpr std::uint32_t value() const { return value_; }
  [[nodiscard]] constexpr bool before(Serial other) const { return distance(other, *this) < 0; }
  [[nodiscard]] constexpr bool after(Serial other) const { return distance(other, *this) > 0; }
  /// How far `to` is ahead of `from`; negative when it is behind.
  [[nodiscard]] static constexpr std::int32_t distance(Serial from, Serial to) {
    return static_cast<std::int32_t>(to.value_ - from.value_);
  }
  constexpr Serial operator+(std::uint32_t n) const { return Serial(value_ + n); }
  constexpr Serial operator-(std::uint32_t n) const { return Serial(value_ - n); }
  constexpr Serial& operator++() { return ++value_, *this; }
  constexpr bool operator==(const Serial&) const = default;

 private:
  std::uint32_t value_ = 0;
};

}  // namespace lockstep::iscsi
