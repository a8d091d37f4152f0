#pragma once
// A real etcd for one test: its own data folder, its own port on 127.0.0.1, killed at the end.
#include <cstdint>
#include <string>

#include <sys/types.h>

namespace lockstep::tests {

class EtcdProcess {
 public:
  EtcdProcess();  ///< started and answering
  ~EtcdProcess();
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void start();   ///< again, with the data and port of before
  void kill();    ///< SIGKILL, as a power cut
  void freeze();  ///< SIGSTOP: takes connections, answers nothing
  void thaw();
  /// Writes `value` to `key` past the product's code.
  void put(const std::string& key, const std::string& value);
  [[nodiscard]] std::string get(const std::string& key);
  void remove(const std::string& key);

 private:
  [[nodiscard]] int etcdctl(const std::string& arguments, const std::string& output = "/dev/null") const;
  std::string folder_;
  std::uint16_t port_ = 0;
  pid_t pid_ = -1;
};

/// A port of 127.0.0.1 that nobody listens on now.
[[nodiscard]] std::uint16_t free_port();

}  // namespace lockstep::tests
