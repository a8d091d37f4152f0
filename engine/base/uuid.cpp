#include "engine/base/uuid.hpp"

#include "engine/base/byte_order.hpp"

namespace lockstep::engine {
namespace {

constexpr std::size_t kTextLength = 36;
constexpr bool is_hyphen_position(std::size_t i) { return i == 8 || i == 13 || i == 18 || i == 23; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string Uuid::to_string() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(kTextLength, '-');
  std::size_t at = 0;
  for (const std::uint8_t byte : bytes) {
    if (is_hyphen_position(at)) ++at;
    text[at++] = kDigits[byte >> 4];
    text[at++] = kDigits[byte & 15];
  }
  return text;
}

std::optional<Uuid> Uuid::parse(std::string_view text) {
  if (text.size() != kTextLength) return std::nullopt;
  Uuid id;
  std::size_t digits = 0;
  for (std::size_t i = 0; i < kTextLength; ++i) {
    if (is_hyphen_position(i)) {
      if (text[i] != '-') return std::nullopt;
      continue;
    }
    const int value = hex_value(text[i]);
    if (value < 0) return std::nullopt;
    id.bytes[digits / 2] = static_cast<std::uint8_t>(id.bytes[digits / 2] << 4 | value);
    ++digits;
  }
  return id;
}

}  // namespace lockstep::engine

std::size_t std::hash<lockstep::engine::Uuid>::operator()(const lockstep::engine::Uuid& id) const noexcept {
  using lockstep::engine::load_be;
  const auto high = load_be<std::uint64_t>(id.bytes.data());
  const auto low = load_be<std::uint64_t>(id.bytes.data() + 8);
  // Most are random already; the multiplication spreads those that tests and derived names count up.
  return static_cast<std::size_t>((high ^ (low * 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u);
}
