#include "tests/unit/replication_link/etcd_process.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/ports/free_port.hpp"

namespace lockstep::tests {

EtcdProcess::EtcdProcess(EtcdOptions options)
    : options_(std::move(options)), port_(free_port()), plain_(options_.certificate.empty() ? port_ : free_port()) {
  char name[] = "/tmp/lockstep-etcd-XXXXXX";
  if (!::mkdtemp(name)) throw std::runtime_error("can't make a folder in /tmp");
  folder_ = name;
  (void)keep("cert.pem", options_.certificate);
  (void)keep("key.pem", options_.key);
  (void)keep("client_ca.pem", options_.client_ca);
  start();
}

EtcdProcess::~EtcdProcess() {
  kill();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<std::string> EtcdProcess::command_line() const {
  const std::string plain = "http://127.0.0.1:" + std::to_string(plain_);
  const std::string clients = options_.certificate.empty() ? plain : url() + "," + plain;
  std::vector<std::string> words = {"etcd",
                                    "--data-dir",
                                    folder_ + "/data",
                                    "--listen-client-urls",
                                    clients,
                                    "--advertise-client-urls",
                                    clients,
                                    "--listen-peer-urls",
                                    "http://127.0.0.1:0",
                                    "--logger",
                                    "zap"};
  if (!options_.certificate.empty())
    words.insert(words.end(), {"--cert-file", folder_ + "/cert.pem", "--key-file", folder_ + "/key.pem"});
  if (!options_.client_ca.empty())
    words.insert(words.end(), {"--client-cert-auth", "--trusted-ca-file", folder_ + "/client_ca.pem"});
  for (std::string word : options_.arguments) {
    if (const auto at = word.find("FOLDER"); at != std::string::npos) word.replace(at, 6, folder_);
    words.push_back(std::move(word));
  }
  return words;
}

std::string EtcdProcess::keep(const std::string& name, const std::string& text) const {
  std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  return folder_ + "/" + name;
}

void EtcdProcess::start() {
  std::vector<std::string> words = command_line();
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int log = ::open((folder_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(log, 1);
    ::dup2(log, 2);
    ::execvp("etcd", arguments.data());
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

void EtcdProcess::back_up() {
  std::filesystem::copy(folder_ + "/data", folder_ + "/backup", std::filesystem::copy_options::recursive);
}

void EtcdProcess::restore() {
  std::filesystem::remove_all(folder_ + "/data");
  std::filesystem::copy(folder_ + "/backup", folder_ + "/data", std::filesystem::copy_options::recursive);
}

void EtcdProcess::freeze() {
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);  // a busy machine takes its time to stop every thread
}
void EtcdProcess::thaw() { ::kill(pid_, SIGCONT); }

void EtcdProcess::put(const std::string& key, const std::string& value) {
  must("put " + key + " < " + keep("value", value));
}

void EtcdProcess::enable_authentication(const std::string& user, const std::string& password, const std::string& prefix,
                                        const std::string& rights) {
  must("user add root:root");
  must("user grant-role root root");
  must("user add " + user + ":" + password);
  must("role add reach");
  must("role grant-permission --prefix=true reach " + rights + " " + prefix);
  must("user grant-role " + user + " reach");
  must("auth enable");
  authenticates_ = true;
}

void EtcdProcess::must(const std::string& arguments) const {
  if (etcdctl(arguments) != 0) throw std::runtime_error("etcdctl " + arguments + " failed");
}

std::string EtcdProcess::get(const std::string& key) {
  const std::string path = folder_ + "/got";
  if (etcdctl("get --print-value-only " + key, path) != 0) throw std::runtime_error("etcdctl get failed");
  std::ifstream file(path, std::ios::binary);
  std::string value(std::istreambuf_iterator<char>(file), {});
  if (value.ends_with('\n')) value.pop_back();  // etcdctl's own
  return value;
}

void EtcdProcess::remove(const std::string& key) { must("del " + key); }

int EtcdProcess::etcdctl(const std::string& arguments, const std::string& output) const {
  return std::system(("ETCDCTL_API=3 etcdctl --dial-timeout=300ms --command-timeout=1s --endpoints=http://127.0.0.1:" +
                      std::to_string(plain_) + (authenticates_ ? " --user root:root " : " ") + arguments + " > " +
                      output + " 2> /dev/null")
                         .c_str());
}

}  // namespace lockstep::tests
