#pragma once
// "10.0.0.11:3260" and "[fd00::11]:3260": numeric addresses with a port. Names are not resolved: a pair must come up
// without a name server.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::mgmt {

struct Address {
  std::string host;  ///< without brackets
  std::uint16_t port = 0;
  bool v6 = false;
};

[[nodiscard]] std::optional<Address> parse_address(std::string_view text);
[[nodiscard]] std::string to_string(const Address& address);
/// Of the host, in network order: four of IPv4, followed by zeros.
[[nodiscard]] std::array<unsigned char, 16> bytes_of(const Address& address);
/// By their values, since an IPv6 address may be written in several ways; as texts where one is no address.
[[nodiscard]] bool is_same_address(const std::string& one, const std::string& other);
/// Of the same host, or of all, and one of the `more` ports above this one's is among those that the other has: its own
/// and `others_more` above it.
[[nodiscard]] bool ports_meet(const std::string& one, unsigned more, const std::string& other, unsigned others_more);
/// The same with a port so much higher.
[[nodiscard]] std::string with_port_above(const std::string& address, unsigned more);
/// An address that stands for every one of a machine.
[[nodiscard]] bool is_wildcard(std::string_view address);

}  // namespace lockstep::mgmt
