#pragma once
// The network interfaces of this machine, as the kernel tells of them.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::mgmt {

struct NetworkInterface {
  std::string name;
  std::vector<std::string> addresses;  ///< numeric; none of link scope
  std::uint64_t mtu = 0;               ///< bytes of a packet; 0: not known
  bool loopback = false;
  std::uint64_t megabits = 0;  ///< a second; 0: not known, or it has no such thing
};

/// Those that are up and have an address.
[[nodiscard]] std::vector<NetworkInterface> interfaces_of_this_machine();
/// `host`: without a port and brackets. Nothing where no interface has it.
[[nodiscard]] std::optional<NetworkInterface> interface_of(const std::string& host);

}  // namespace lockstep::mgmt
