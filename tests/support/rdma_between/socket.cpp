#include "tests/support/rdma_between/socket.hpp"

#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace lockstep::test::between {
namespace {

constexpr int kBacklog = 128;

std::unexpected<std::error_code> system_failure() {
  return std::unexpected(std::error_code(errno, std::generic_category()));
}

Descriptor make_socket() { return Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

engine::IoResult<Descriptor> listen_at(const sockaddr_un& name) {
  Descriptor made = make_socket();
  if (!made.is_open()) return system_failure();
  if (::bind(made.number(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return system_failure();
  if (::listen(made.number(), kBacklog) != 0) return system_failure();
  return made;
}

engine::IoResult<Descriptor> call_at(const sockaddr_un& name) {
  Descriptor made = make_socket();
  if (!made.is_open()) return system_failure();
  if (::connect(made.number(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return system_failure();
  return made;
}

bool is_of_this_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

Sent send_packet(int socket, const Header& header, Pieces bytes) {
  std::array<iovec, 5> parts{};
  assert(bytes.size() < parts.size());
  parts[0] = {const_cast<Header*>(&header), sizeof header};
  std::size_t count = 1;
  for (const auto piece : bytes) parts[count++] = {const_cast<std::byte*>(piece.data()), piece.size()};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Sent::whole;
  return errno == EAGAIN || errno == ENOBUFS || errno == EINTR ? Sent::no_room : Sent::hung_up;
}

engine::IoResult<std::optional<Packet>> receive_packet(int socket, std::span<std::byte> room) {
  ssize_t got = ::recv(socket, room.data(), room.size(), MSG_DONTWAIT | MSG_TRUNC);
  // A peer that left something unread when it closed is told first; what it had sent before is still there.
  if (got < 0 && errno == ECONNRESET) got = ::recv(socket, room.data(), room.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got <= 0) return std::unexpected(std::make_error_code(std::errc::connection_reset));
  const auto size = static_cast<std::size_t>(got);
  Packet packet;
  if (size < sizeof packet.header || size > room.size()) {
    return std::unexpected(std::make_error_code(std::errc::protocol_error));
  }
  std::memcpy(&packet.header, room.data(), sizeof packet.header);
  if (packet.header.magic != Header::kMagic) return std::unexpected(std::make_error_code(std::errc::protocol_error));
  packet.bytes = room.subspan(sizeof packet.header, size - sizeof packet.header);
  return packet;
}

}  // namespace lockstep::test::between
