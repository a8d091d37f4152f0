#include "tests/support/ports/free_port.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace lockstep::tests {
namespace {

constexpr unsigned kFirst = 10'000, kLane = 200, kLanes = 110;  // as PORTS and LANE of basics.py

bool bound(const char* name, std::size_t length, int socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name, length);  // a name that is in no folder begins with a zero
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address),
                static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)) == 0;
}

// Kept until the process ends. In the end a lane that is shared.
unsigned lane_of_ones_own() {
  std::array<unsigned, kLanes> lanes{};
  std::iota(lanes.begin(), lanes.end(), 0U);
  std::ranges::shuffle(lanes, std::random_device());
  const int keeper = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  unsigned begin = kFirst;
  for (const unsigned lane : lanes) {
    begin = kFirst + lane * kLane;
    const std::string name = "lockstep-test-ports-" + std::to_string(begin);
    if (bound(name.data(), name.size(), keeper)) break;
  }
  return begin;
}

bool is_free(unsigned port) {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) throw std::runtime_error("no socket for a test");
  const int yes = 1;
  (void)::setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // as the daemons do
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool free = ::bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(probe);
  return free;
}

}  // namespace

std::uint16_t free_port(unsigned count) {
  static const unsigned lane = lane_of_ones_own();
  static unsigned next = 0;
  for (unsigned tried = 0; tried < kLane; ++tried) {
    if (next + count > kLane) next = 0;
    const unsigned first = lane + next;
    unsigned free = 0;
    while (free < count && is_free(first + free)) ++free;
    next += std::max(free, 1U);
    if (free == count) return static_cast<std::uint16_t>(first);
  }
  throw std::runtime_error("no free ports on 127.0.0.1");
}

}  // namespace lockstep::tests
