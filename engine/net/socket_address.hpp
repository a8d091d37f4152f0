#pragma once
// Literal addresses, "127.0.0.1:3260" and "[::1]:3260", to and from the system's form. Include from .cpp files only.
#include <string>
#include <string_view>

#include <sys/socket.h>

#include "engine/base/result.hpp"

namespace lockstep::engine {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] int family() const { return storage.ss_family; }
};

/// Errc::refused with a sentence that says what an address looks like.
[[nodiscard]] Result<SocketAddress> parse_address(std::string_view text);
/// "?" for what is no internet address.
[[nodiscard]] std::string to_string(const SocketAddress& address);
[[nodiscard]] std::string local_address_of(int descriptor);
[[nodiscard]] std::string peer_address_of(int descriptor);

/// An error of the system's as a whole sentence: "Cannot listen on 127.0.0.1:3260: address in use. ..."
[[nodiscard]] Error socket_error(std::string what, int error_number, std::string_view advice = {});

}  // namespace lockstep::engine
