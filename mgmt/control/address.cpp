#include "mgmt/control/address.hpp"

#include <charconv>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

namespace lockstep::mgmt {

std::optional<Address> parse_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  Address address;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.size() > 5) return std::nullopt;
  address.v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (address.v6) host = host.substr(1, host.size() - 2);
  address.host = host;
  in6_addr parsed{};
  if (::inet_pton(address.v6 ? AF_INET6 : AF_INET, address.host.c_str(), &parsed) != 1) return std::nullopt;
  return address;
}

std::array<unsigned char, 16> bytes_of(const Address& address) {
  std::array<unsigned char, 16> bytes{};
  ::inet_pton(address.v6 ? AF_INET6 : AF_INET, address.host.c_str(), bytes.data());
  return bytes;
}

bool is_same_address(const std::string& one, const std::string& other) {
  const auto a = parse_address(one), b = parse_address(other);
  if (!a || !b) return one == other;
  return a->v6 == b->v6 && a->port == b->port && bytes_of(*a) == bytes_of(*b);
}

bool ports_meet(const std::string& one, unsigned more, const std::string& other, unsigned others_more) {
  const auto a = parse_address(one), b = parse_address(other);
  if (!a || !b) return false;
  const bool same = a->v6 == b->v6 && bytes_of(*a) == bytes_of(*b);
  if (!same && !is_wildcard(one) && !is_wildcard(other)) return false;
  return a->port <= b->port + others_more && b->port <= a->port + more;
}

std::string with_port_above(const std::string& address, unsigned more) {
  auto parsed = parse_address(address);
  if (!parsed || more == 0) return address;
  parsed->port = static_cast<std::uint16_t>(parsed->port + more);
  return to_string(*parsed);
}

bool is_wildcard(std::string_view address) {
  const auto parsed = parse_address(address);
  return parsed && (parsed->host == "0.0.0.0" || parsed->host == "::");
}

std::string to_string(const Address& address) {
  return address.v6 ? fmt::format("[{}]:{}", address.host, address.port)
                    : fmt::format("{}:{}", address.host, address.port);
}

}  // namespace lockstep::mgmt
