#include "mgmt/control/network_interface.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <memory>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

namespace lockstep::mgmt {
namespace {

std::optional<std::string> text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    return ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6{};
  std::memcpy(&v6, address, sizeof v6);
  if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) return std::nullopt;
  return ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
}

/// A speed that there is not, or that is not known, reads as an error or as -1.
std::uint64_t number_of(const std::string& name, const char* what) {
  std::ifstream file("/sys/class/net/" + name + "/" + what);
  std::int64_t value = 0;
  return file >> value && value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

}  // namespace

std::vector<NetworkInterface> interfaces_of_this_machine() {
  std::vector<NetworkInterface> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const auto text = text_of(one->ifa_addr);
    if (!text) continue;
    const std::string name = one->ifa_name;
    auto at = std::ranges::find(found, name, &NetworkInterface::name);
    if (at == found.end())
      at = found.insert(
          at, {name, {}, number_of(name, "mtu"), (one->ifa_flags & IFF_LOOPBACK) != 0, number_of(name, "speed")});
    at->addresses.push_back(*text);
  }
  return found;
}

std::optional<NetworkInterface> interface_of(const std::string& host) {
  for (auto& one : interfaces_of_this_machine())
    if (std::ranges::find(one.addresses, host) != one.addresses.end()) return std::move(one);
  return std::nullopt;
}

}  // namespace lockstep::mgmt
