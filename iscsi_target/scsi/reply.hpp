#pragma once
// A small answer under construction: at most 4 KiB of parameter data on the stack, which complete() copies.
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/base/byte_order.hpp"

namespace lockstep::iscsi_target {

class Reply : public engine::ByteWriter {
 public:
  static constexpr std::size_t kMaxSize = 4096;
  Reply() : ByteWriter(room_) {}
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  void text(std::string_view s) { bytes(std::as_bytes(std::span(s))); }
  /// Left-aligned in `width`, cut or filled with `fill`.
  void padded(std::string_view s, std::size_t width, char fill = ' ') {
    text(s.substr(0, width));
    for (std::size_t i = s.size(); i < width; ++i) u8(static_cast<std::uint8_t>(fill));
  }
  /// Changes what was written before.
  void set_u8(std::size_t at, std::uint8_t v) { room_[at] = std::byte{v}; }
  void set_be16(std::size_t at, std::uint16_t v) { engine::store_be<std::uint16_t>(&room_[at], v); }
  void set_be32(std::size_t at, std::uint32_t v) { engine::store_be<std::uint32_t>(&room_[at], v); }
  [[nodiscard]] std::span<const std::byte> done() const {
    assert(ok());  // every list has a bound that fits
    return std::span<const std::byte>(room_).first(size());
  }

 private:
  std::array<std::byte, kMaxSize> room_;
};

}  // namespace lockstep::iscsi_target
