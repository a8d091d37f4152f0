#include "replication/arbiter/base64.hpp"

#include <cstdint>

namespace lockstep::replication {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::optional<std::uint32_t> value_of(char c) {
  const auto at = kAlphabet.find(c);
  if (at == std::string_view::npos) return std::nullopt;
  return static_cast<std::uint32_t>(at);
}

}  // namespace

std::string base64_encode(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < n ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) text += k <= n ? kAlphabet[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string base64_encode(std::string_view text) { return base64_encode(std::as_bytes(std::span(text))); }

std::optional<std::vector<std::byte>> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const std::size_t padding = !last || text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const auto value = k < 4 - padding ? value_of(text[i + k]) : 0;
      if (!value) return std::nullopt;
      group = group << 6 | *value;
    }
    for (std::size_t k = 0; k < 3; ++k) {
      const auto byte = static_cast<std::byte>(group >> (16 - 8 * k));
      if (k < 3 - padding) {
        bytes.push_back(byte);
      } else if (byte != std::byte{0}) {
        return std::nullopt;
      }
    }
  }
  return bytes;
}

}  // namespace lockstep::replication
