#pragma once
// A TCP server on 127.0.0.1 that reads a request of HTTP, sends what it was told, and closes; again and again.
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace lockstep::tests {

class ScriptedServer {
 public:
  explicit ScriptedServer(std::string answer);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  void serve();
  std::string answer_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::tests
