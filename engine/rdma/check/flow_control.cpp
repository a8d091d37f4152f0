#include "engine/rdma/check/flow_control.hpp"

#include <array>
#include <cstring>

#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace lockstep::rdma {
namespace {

class Socket {
 public:
  Socket(int family, int type, int protocol) : fd_(::socket(family, type | SOCK_CLOEXEC, protocol)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::optional<PriorityFlowControl> ask_pfc(const std::string& interface) {
  const Socket socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  if (!socket) return {};
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  constexpr std::uint32_t kNumber = 1;  // the socket's first and only question
  const auto question = dcb_question(interface, kNumber);
  if (::send(socket.fd(), question.data(), question.size(), 0) != static_cast<ssize_t>(question.size())) return {};
  std::array<std::byte, 8192> answer;
  const ssize_t bytes = ::recv(socket.fd(), answer.data(), answer.size(), 0);
  if (bytes <= 0) return {};
  return flow_control_in(std::span(answer).first(static_cast<std::size_t>(bytes)), kNumber);
}

std::optional<bool> ask_pause(const std::string& interface) {
  const Socket socket(AF_INET, SOCK_DGRAM, 0);
  ethtool_pauseparam told{};
  told.cmd = ETHTOOL_GPAUSEPARAM;
  ifreq request{};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_data = reinterpret_cast<char*>(&told);
  if (!socket || ::ioctl(socket.fd(), SIOCETHTOOL, &request) != 0) return {};
  return told.rx_pause != 0 && told.tx_pause != 0;
}

}  // namespace

FlowControl ask_flow_control(const std::string& interface) { return {ask_pfc(interface), ask_pause(interface)}; }

}  // namespace lockstep::rdma
