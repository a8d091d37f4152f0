// Whether a port is free, and who has it (proc(5)).
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "ui-api/cli/setup/descriptor.hpp"
#include "ui-api/cli/setup/local_host.hpp"
#include "ui-api/cli/setup/socket_address.hpp"

namespace lockstep::cli::setup {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListens = "0A";

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// As the table has it: "0B00000A:0CBC", each word of the address in the machine's byte order.
std::string in_table(const mgmt::Address& address) {
  const auto bytes = mgmt::bytes_of(address);
  std::string out;
  for (std::size_t word = 0; word < (address.v6 ? 4u : 1u); ++word) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + 4 * word, sizeof value);
    out += fmt::format("{:08X}", value);
  }
  return out;
}

/// Of the listening sockets that take connections to the address.
std::set<std::string> listening_inodes(const mgmt::Address& address) {
  std::set<std::string> inodes;
  const std::string port = fmt::format("{:04X}", address.port), own = in_table(address);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
      const auto colon = local.find(':');
      if (state != kListens || colon == std::string::npos || local.substr(colon + 1) != port) continue;
      const std::string host = local.substr(0, colon);
      if (host == own || host.find_first_not_of('0') == std::string::npos) inodes.insert(inode);
    }
  }
  return inodes;
}

bool has_one_of(const fs::path& process, const std::set<std::string>& inodes) {
  std::error_code error;
  for (fs::directory_iterator at(process / "fd", error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(at->path(), gone).string();
    constexpr std::string_view kSocket = "socket:[";
    if (!gone && target.starts_with(kSocket) && target.ends_with(']') &&
        inodes.contains(target.substr(kSocket.size(), target.size() - kSocket.size() - 1)))
      return true;
  }
  return false;
}

std::string holder_of(const mgmt::Address& address) {
  const auto inodes = listening_inodes(address);
  std::error_code error;
  if (inodes.empty()) return {};
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    if (!all_digits(at->path().filename().string()) || !has_one_of(at->path(), inodes)) continue;
    std::error_code gone;
    std::string program = fs::read_symlink(at->path() / "exe", gone).filename().string();
    constexpr std::string_view kReplaced = " (deleted)";  // by an upgrade
    if (program.ends_with(kReplaced)) program.resize(program.size() - kReplaced.size());
    return program;
  }
  return {};
}

}  // namespace

PortState state_of_port(const mgmt::Address& address) {
  using Use = PortState::Use;
  const Descriptor socket(::socket(address.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.good()) return {Use::unknown, {}};
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on,
               sizeof on);  // connections that have ended are in nobody's way
  const SocketAddress wanted(address);
  if (::bind(socket.get(), wanted.get(), wanted.size) == 0 && ::listen(socket.get(), 1) == 0) return {Use::free, {}};
  if (errno == EADDRNOTAVAIL) return {Use::not_here, {}};
  if (errno == EADDRINUSE) return {Use::taken, holder_of(address)};
  return {Use::unknown, {}};
}

}  // namespace lockstep::cli::setup
