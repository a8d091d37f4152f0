#include "tests/unit/replication_link/scripted_server.hpp"

#include <stdexcept>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::tests {
namespace {

// Reads until the body that Content-Length promises is in, so that closing does not reset what was sent.
void read_request(int connection) {
  std::string seen;
  char chunk[4096];
  for (;;) {
    const ssize_t n = ::recv(connection, chunk, sizeof chunk, 0);
    if (n <= 0) return;
    seen.append(chunk, static_cast<std::size_t>(n));
    const auto head = seen.find("\r\n\r\n");
    const auto length = seen.find("Content-Length: ");
    if (head == std::string::npos || length == std::string::npos) continue;
    if (seen.size() >= head + 4 + std::stoul(seen.substr(length + 16))) return;
  }
}

}  // namespace

ScriptedServer::ScriptedServer(std::string answer) : answer_(std::move(answer)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_, 16) != 0 || ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("can't listen on 127.0.0.1");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

ScriptedServer::~ScriptedServer() {
  stopping_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

void ScriptedServer::serve() {
  while (!stopping_) {
    const int connection = ::accept(listener_, nullptr, nullptr);
    if (connection < 0) continue;
    read_request(connection);
    (void)!::send(connection, answer_.data(), answer_.size(), MSG_NOSIGNAL);
    ::close(connection);
  }
}

}  // namespace lockstep::tests
