#pragma once
// Bytes as golden texts have them.
#include <cstddef>
#include <span>
#include <string>

namespace lockstep::test {

/// "4c53", two lower-case digits each.
[[nodiscard]] inline std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const auto b : bytes) {
    text += "0123456789abcdef"[std::to_integer<int>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<int>(b) & 15];
  }
  return text;
}

}  // namespace lockstep::test
