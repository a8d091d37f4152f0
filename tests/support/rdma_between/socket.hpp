#pragma once
// A socket of packets that arrive whole and in order (SOCK_SEQPACKET of unix(7)), on a reactor.
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <sys/un.h>

#include "engine/base/result.hpp"
#include "tests/support/rdma_between/messages.hpp"

namespace lockstep::test::between {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int release() { return std::exchange(number_, -1); }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

using Pieces = std::span<const std::span<const std::byte>>;  ///< at most four

[[nodiscard]] engine::IoResult<Descriptor> listen_at(const sockaddr_un& name);
/// At once or not: operation_would_block when there is no room for one more that calls.
[[nodiscard]] engine::IoResult<Descriptor> call_at(const sockaddr_un& name);
/// Of another user's process nothing is taken.
[[nodiscard]] bool is_of_this_user(int socket);

enum class Sent : std::uint8_t { whole, no_room, hung_up };
[[nodiscard]] Sent send_packet(int socket, const Header& header, Pieces bytes);

/// A packet, with the bytes behind its header. Nothing: there is none now.
struct Packet {
  Header header;
  std::span<const std::byte> bytes;
};
/// connection_reset: the peer is gone, and there will be no more. protocol_error: it is none of ours.
[[nodiscard]] engine::IoResult<std::optional<Packet>> receive_packet(int socket, std::span<std::byte> room);
constexpr std::size_t kPacketRoom = sizeof(Header) + kPiece;

}  // namespace lockstep::test::between
