#pragma once
// Addresses as text, the way that the system writes them.
#include <string>
#include <string_view>

#include "engine/base/result.hpp"

namespace lockstep::test::between {

[[nodiscard]] engine::Result<std::string> plain_address(std::string_view address);
[[nodiscard]] std::uint16_t port_of(std::string_view address);
[[nodiscard]] std::string with_port(std::string_view address, std::uint16_t port);
/// Where a listener on any address of the family would be.
[[nodiscard]] std::string any_address_for(std::string_view address);

}  // namespace lockstep::test::between
