#pragma once
// A real etcd for one test: its own data folder, its own port on 127.0.0.1, killed at the end.
#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

namespace lockstep::tests {

struct EtcdOptions {
  std::string certificate;  ///< PEM, with the key: TLS on url()
  std::string key;
  std::string client_ca;                    ///< PEM: clients must show a certificate that it signed
  std::vector<std::string> arguments = {};  ///< more of etcd's; "FOLDER" in them is a folder of its own
};

class EtcdProcess {
 public:
  explicit EtcdProcess(EtcdOptions options = {});  ///< started and answering
  ~EtcdProcess();
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  [[nodiscard]] std::string url(const std::string& host = "127.0.0.1") const {
    return (options_.certificate.empty() ? "http://" : "https://") + host + ":" + std::to_string(port_);
  }
  void start();    ///< again, with the data and port of before
  void kill();     ///< SIGKILL, as a power cut
  void back_up();  ///< its data as it is now; not while it runs
  void restore();  ///< the data that was backed up; not while it runs
  void freeze();   ///< SIGSTOP: takes connections, answers nothing
  void thaw();
  /// From now on nobody may do anything but root and `user`, who reaches the keys below `prefix`.
  void enable_authentication(const std::string& user, const std::string& password, const std::string& prefix,
                             const std::string& rights = "readwrite");
  /// Writes `value` to `key` past the product's code.
  void put(const std::string& key, const std::string& value);
  [[nodiscard]] std::string get(const std::string& key);
  void remove(const std::string& key);

 private:
  [[nodiscard]] int etcdctl(const std::string& arguments, const std::string& output = "/dev/null") const;
  void must(const std::string& arguments) const;
  [[nodiscard]] std::string keep(const std::string& name, const std::string& text) const;
  [[nodiscard]] std::vector<std::string> command_line() const;
  EtcdOptions options_;
  std::string folder_;
  std::uint16_t port_ = 0;
  std::uint16_t plain_ = 0;  ///< where etcdctl asks, without TLS
  bool authenticates_ = false;
  pid_t pid_ = -1;
};

}  // namespace lockstep::tests
