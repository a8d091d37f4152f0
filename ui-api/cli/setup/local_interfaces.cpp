// What addresses this machine has.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "ui-api/cli/setup/descriptor.hpp"
#include "ui-api/cli/setup/local_host.hpp"

namespace lockstep::cli::setup {
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

unsigned mtu_of(const std::string& name) {
  const Descriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  if (!any.good() || name.size() >= sizeof request.ifr_name) return 0;
  std::memcpy(request.ifr_name, name.data(), name.size());
  return ::ioctl(any.get(), SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0 ? static_cast<unsigned>(request.ifr_mtu)
                                                                              : 0;
}

}  // namespace

std::vector<Interface> interfaces_of_this_machine() {
  std::vector<Interface> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const auto text = text_of(one->ifa_addr);
    if (!text) continue;
    auto at = std::ranges::find(found, one->ifa_name, &Interface::name);
    if (at == found.end())
      at = found.insert(at, Interface{one->ifa_name, {}, mtu_of(one->ifa_name), (one->ifa_flags & IFF_LOOPBACK) != 0});
    at->addresses.push_back(*text);
  }
  return found;
}

}  // namespace lockstep::cli::setup
