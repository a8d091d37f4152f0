// Whether packets of a size reach another machine: echo requests (RFC 792, RFC 4443) that may not be cut up on the way.
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <poll.h>

#include "ui-api/cli/setup/descriptor.hpp"
#include "ui-api/cli/setup/local_host.hpp"
#include "ui-api/cli/setup/socket_address.hpp"

namespace lockstep::cli::setup {
namespace {

constexpr unsigned kIp4Header = 20, kIp6Header = 40, kEchoHeader = 8;
constexpr unsigned kSmallPacket = 100;
constexpr unsigned kLargestPacket = 65535;
constexpr int kPacketsTried = 3;
constexpr auto kPatience = std::chrono::milliseconds(700);

using Clock = std::chrono::steady_clock;

std::uint16_t checksum(const std::vector<unsigned char>& bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2)
    sum += (static_cast<std::uint32_t>(bytes[i]) << 8) | (i + 1 < bytes.size() ? bytes[i + 1] : 0u);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

/// Type, code, checksum, identifier, sequence number, data. The kernel fills in the checksum of IPv6.
std::vector<unsigned char> echo_request(bool v6, std::uint16_t identifier, std::uint16_t sequence, unsigned bytes) {
  std::vector<unsigned char> packet(bytes, 'L');
  packet[0] = v6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO;
  packet[1] = packet[2] = packet[3] = 0;
  packet[4] = static_cast<unsigned char>(identifier >> 8);
  packet[5] = static_cast<unsigned char>(identifier);
  packet[6] = static_cast<unsigned char>(sequence >> 8);
  packet[7] = static_cast<unsigned char>(sequence);
  const std::uint16_t sum = v6 ? 0 : checksum(packet);
  packet[2] = static_cast<unsigned char>(sum >> 8);
  packet[3] = static_cast<unsigned char>(sum);
  return packet;
}

bool is_answer(const unsigned char* bytes, std::size_t size, bool v6, std::uint16_t identifier) {
  if (!v6) {  // a raw socket of IPv4 hands over the header, too
    const std::size_t header = size > 0 ? (bytes[0] & 0x0fu) * 4u : 0;
    if (header < kIp4Header || size < header + kEchoHeader) return false;
    bytes += header;
    size -= header;
  }
  if (size < kEchoHeader || bytes[0] != (v6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY)) return false;
  return bytes[4] == (identifier >> 8) && bytes[5] == (identifier & 0xff);
}

bool answered(int socket, bool v6, std::uint16_t identifier) {
  const auto deadline = Clock::now() + kPatience;
  std::vector<unsigned char> buffer(kLargestPacket);
  for (auto left = kPatience; left.count() > 0;
       left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now())) {
    pollfd wait{socket, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(left.count())) <= 0) continue;
    const auto size = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size > 0 && is_answer(buffer.data(), static_cast<std::size_t>(size), v6, identifier)) return true;
  }
  return false;
}

bool reaches(int socket, bool v6, unsigned whole, std::uint16_t identifier) {
  const unsigned header = v6 ? kIp6Header : kIp4Header;
  for (int i = 0; i < kPacketsTried; ++i) {
    const auto packet = echo_request(v6, identifier, static_cast<std::uint16_t>(i), whole - header);
    const auto sent = ::send(socket, packet.data(), packet.size(), 0);
    if (sent < 0 && errno == EMSGSIZE)
      continue;  // the kernel has learnt that it does not fit; or the last answer said so
    if (sent >= 0 && answered(socket, v6, identifier)) return true;
  }
  return false;
}

}  // namespace

PacketState try_packets(const mgmt::Address& from, const mgmt::Address& to, unsigned bytes) {
  using Seen = PacketState::Outcome;
  if (from.v6 != to.v6 || bytes < kSmallPacket || bytes > kLargestPacket) return {Seen::not_tried};
  const Descriptor socket(to.v6 ? ::socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6)
                                : ::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP));
  if (!socket.good()) return {Seen::not_tried};
  const int whole = to.v6 ? IPV6_PMTUDISC_PROBE : IP_PMTUDISC_PROBE;
  ::setsockopt(socket.get(), to.v6 ? IPPROTO_IPV6 : IPPROTO_IP, to.v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &whole,
               sizeof whole);
  mgmt::Address here = from, there = to;
  here.port = there.port = 0;
  const SocketAddress source(here), target(there);
  if (::bind(socket.get(), source.get(), source.size) != 0) return {Seen::not_tried};
  if (::connect(socket.get(), target.get(), target.size) != 0) return {Seen::silent};
  const auto identifier = static_cast<std::uint16_t>(::getpid());
  if (!reaches(socket.get(), to.v6, kSmallPacket, identifier)) return {Seen::silent};
  const auto other =
      static_cast<std::uint16_t>(identifier ^ 0x5555);  // a late answer to a small one counts for nothing
  return {reaches(socket.get(), to.v6, bytes, other) ? Seen::reached : Seen::only_small};
}

}  // namespace lockstep::cli::setup
