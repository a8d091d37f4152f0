#include "tests/unit/replication_link/etcd_process.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::tests {

std::uint16_t free_port() {
  const int s = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (s < 0 || ::bind(s, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::getsockname(s, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("no free port on 127.0.0.1");
  }
  ::close(s);
  return ntohs(address.sin_port);
}

EtcdProcess::EtcdProcess() : port_(free_port()) {
  char name[] = "/tmp/lockstep-etcd-XXXXXX";
  if (!::mkdtemp(name)) throw std::runtime_error("can't make a folder in /tmp");
  folder_ = name;
  start();
}

EtcdProcess::~EtcdProcess() {
  kill();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void EtcdProcess::start() {
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int log = ::open((folder_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(log, 1);
    ::dup2(log, 2);
    const std::string data = folder_ + "/data";
    const std::string client = url();
    ::execlp("etcd", "etcd", "--data-dir", data.c_str(), "--listen-client-urls", client.c_str(),
             "--advertise-client-urls", client.c_str(), "--listen-peer-urls", "http://127.0.0.1:0", "--logger", "zap",
             nullptr);
    ::_exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (etcdctl("get x") != 0) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("etcd does not start: " + folder_ + "/log");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void EtcdProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void EtcdProcess::freeze() { ::kill(pid_, SIGSTOP); }
void EtcdProcess::thaw() { ::kill(pid_, SIGCONT); }

void EtcdProcess::put(const std::string& key, const std::string& value) {
  std::ofstream(folder_ + "/value", std::ios::binary) << value;
  if (etcdctl("put " + key + " < " + folder_ + "/value") != 0) throw std::runtime_error("etcdctl put failed");
}

std::string EtcdProcess::get(const std::string& key) {
  const std::string path = folder_ + "/got";
  if (etcdctl("get --print-value-only " + key, path) != 0) throw std::runtime_error("etcdctl get failed");
  std::ifstream file(path, std::ios::binary);
  std::string value(std::istreambuf_iterator<char>(file), {});
  if (value.ends_with('\n')) value.pop_back();  // etcdctl's own
  return value;
}

void EtcdProcess::remove(const std::string& key) {
  if (etcdctl("del " + key) != 0) throw std::runtime_error("etcdctl del failed");
}

int EtcdProcess::etcdctl(const std::string& arguments, const std::string& output) const {
  return std::system(("ETCDCTL_API=3 etcdctl --dial-timeout=300ms --command-timeout=1s --endpoints=" + url() + " " +
                      arguments + " > " + output + " 2> /dev/null")
                         .c_str());
}

}  // namespace lockstep::tests
