#pragma once
// A numeric address in the form that the kernel takes.
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "mgmt/control/address.hpp"

namespace lockstep::cli::setup {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  explicit SocketAddress(const mgmt::Address& address) {
    if (address.v6) {
      sockaddr_in6 v6{};
      v6.sin6_family = AF_INET6;
      v6.sin6_port = htons(address.port);
      ::inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr);
      size = sizeof v6;
      std::memcpy(&storage, &v6, sizeof v6);
    } else {
      sockaddr_in v4{};
      v4.sin_family = AF_INET;
      v4.sin_port = htons(address.port);
      ::inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr);
      size = sizeof v4;
      std::memcpy(&storage, &v4, sizeof v4);
    }
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

}  // namespace lockstep::cli::setup
