#include "engine/net/socket_address.hpp"

#include <array>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace lockstep::engine {
namespace {

std::string name_of(int descriptor, int (*get)(int, sockaddr*, socklen_t*)) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (get(descriptor, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) return "?";
  return to_string(address);
}

int get_local(int fd, sockaddr* a, socklen_t* n) { return ::getsockname(fd, a, n); }
int get_peer(int fd, sockaddr* a, socklen_t* n) { return ::getpeername(fd, a, n); }

}  // namespace

Result<SocketAddress> parse_address(std::string_view text) {
  const auto bad = [&] {
    return fail(Errc::refused,
                "\"" + std::string(text) + "\" is no address and port; write 192.0.2.1:3260 or [2001:db8::1]:3260.");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad();
  std::uint16_t port = 0;
  const std::string_view port_text = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (port_text.empty() || error != std::errc{} || end != port_text.data() + port_text.size()) return bad();
  SocketAddress out;
  if (text.front() == '[') {
    if (text[colon - 1] != ']') return bad();
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    if (::inet_pton(AF_INET6, std::string(text.substr(1, colon - 2)).c_str(), &v6.sin6_addr) != 1) return bad();
    std::memcpy(&out.storage, &v6, out.length = sizeof v6);
    return out;
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (::inet_pton(AF_INET, std::string(text.substr(0, colon)).c_str(), &v4.sin_addr) != 1) return bad();
  std::memcpy(&out.storage, &v4, out.length = sizeof v4);
  return out;
}

std::string to_string(const SocketAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.family() == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address.storage, sizeof v4);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (address.family() == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address.storage, sizeof v6);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  return "?";
}

std::string local_address_of(int descriptor) { return name_of(descriptor, get_local); }
std::string peer_address_of(int descriptor) { return name_of(descriptor, get_peer); }

Error socket_error(std::string what, int error_number, std::string_view advice) {
  const std::error_code code(error_number, std::generic_category());
  std::string message = std::move(what) + ": " + code.message() + ".";
  if (!advice.empty()) message.append(" ").append(advice);
  return {code, std::move(message)};
}

}  // namespace lockstep::engine
