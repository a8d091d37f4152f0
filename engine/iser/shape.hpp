#pragma once
// How the messages of a connection lie in memory, and how many there may be.
#include <cstddef>
#include <cstdint>

#include "engine/iser/format.hpp"

namespace lockstep::iser {

struct Shape {
  static constexpr std::uint32_t kUnasked = 10;  ///< immediate commands, and what stands outside the window
  /// Receives of libiscsi's session, which is known by that it takes no invalidation, at its beginning: up to 1.19 it
  /// sends commands without a look at MaxCmdSN. Of LIO it is used to 64.
  static constexpr std::uint32_t kOfLibiscsi = 64 + kUnasked;
  static constexpr std::size_t kLong = 8704;  ///< bytes of a login's or a discovery's text with its headers

  /// Bytes of a message that lie in front of its data's buffer: what additional headers it has fit in there.
  std::size_t headers = kHeadersSize;
  std::uint32_t first = 4 + kUnasked;   ///< receives of a session at its beginning,
  std::uint32_t most = 126 + kUnasked;  ///< and at most
  std::size_t send_bytes = 256;         ///< of a message that is put together: headers, and small data
  std::uint16_t sends = 48;             ///< of those at once
  std::uint32_t work = 256;             ///< sends, reads, writes and windows that are posted and not over
  std::uint32_t windows = 0;            ///< of own memory, open at once: a caller's

  [[nodiscard]] constexpr std::size_t receive_slot() const { return (headers + 15) / 16 * 16; }
  [[nodiscard]] constexpr std::size_t receive_memory() const { return receive_slot() * most; }
  [[nodiscard]] constexpr std::size_t send_memory() const { return send_bytes * sends + kLong; }
  /// The same with what stands before each message of a protected connection.
  [[nodiscard]] constexpr Shape protects() const {
    Shape shape = *this;
    shape.headers += kProtectionSize;
    shape.send_bytes += kProtectionSize;
    return shape;
  }
  [[nodiscard]] constexpr std::size_t memory() const { return receive_memory() + send_memory(); }
};

/// A target's towards hosts. An initiator has room for 128 bytes of data in an answer.
constexpr Shape kHosts{};
static_assert(kHosts.memory() <= 32768);

}  // namespace lockstep::iser
