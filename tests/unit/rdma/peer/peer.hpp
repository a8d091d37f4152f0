#pragma once
// What a test and its peer in another process agree on.
#include "tests/support/rdma_between/fabric.hpp"

namespace lockstep::test {

constexpr std::size_t kPeerWindow = std::size_t{4} << 20;  ///< bytes; many packets, so that a move takes a while
constexpr std::byte kPeerByte{0xaa};                       ///< what fills them

}  // namespace lockstep::test
