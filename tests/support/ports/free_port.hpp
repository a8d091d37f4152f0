#pragma once
#include <cstdint>

namespace lockstep::tests {

/// The first of `count` ports of 127.0.0.1, one above the other, that nobody listens on: below those that the kernel
/// gives to outgoing connections, and out of a lane that no other process of the tests takes ports from (basics.py has
/// the same lanes).
[[nodiscard]] std::uint16_t free_port(unsigned count = 1);

}  // namespace lockstep::tests
