#include "tests/support/rdma_between/addresses.hpp"

#include <charconv>

#include "engine/net/socket_address.hpp"

namespace lockstep::test::between {

engine::Result<std::string> plain_address(std::string_view address) {
  const auto parsed = engine::parse_address(address);
  if (!parsed) return std::unexpected(parsed.error());
  return to_string(*parsed);
}

std::uint16_t port_of(std::string_view address) {
  const auto text = address.substr(address.rfind(':') + 1);
  std::uint16_t port = 0;
  std::from_chars(text.data(), text.data() + text.size(), port);
  return port;
}

std::string with_port(std::string_view address, std::uint16_t port) {
  return std::string(address.substr(0, address.rfind(':') + 1)) + std::to_string(port);
}

std::string any_address_for(std::string_view address) {
  return with_port(address.starts_with('[') ? "[::]:0" : "0.0.0.0:0", port_of(address));
}

}  // namespace lockstep::test::between
