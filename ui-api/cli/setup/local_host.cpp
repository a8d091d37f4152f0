#include "ui-api/cli/setup/local_host.hpp"

#include <ctime>
#include <filesystem>

#include <sys/timex.h>
#include <unistd.h>

namespace lockstep::cli::setup {
namespace {

class LocalHost final : public Host {
 public:
  bool is_root() override { return ::geteuid() == 0; }
  bool has_systemd() override {
    std::error_code error;
    return std::filesystem::is_directory("/run/systemd/system", error);
  }
  std::vector<Interface> interfaces() override { return mgmt::interfaces_of_this_machine(); }
  PortState port(const mgmt::Address& address) override { return state_of_port(address); }
  ClockState clock() override {
    ClockState state;
    state.seconds = std::time(nullptr);
    timex kernel{};  // nothing is set
    const int kept = ::adjtimex(&kernel);
    if (kept < 0) return state;
    const bool off = kept == TIME_ERROR || (kernel.status & STA_UNSYNC) != 0;
    state.synchronised = off ? ClockState::Synchronised::no : ClockState::Synchronised::yes;
    return state;
  }
  FolderState folder(const std::string& path) override { return state_of_folder(path); }
  PacketState packets(const mgmt::Address& from, const mgmt::Address& to, unsigned bytes) override {
    return try_packets(from, to, bytes);
  }
  Outcome<Finished> run(const std::vector<std::string>& words) override { return run_program(words); }
};

}  // namespace

std::unique_ptr<Host> make_local_host() { return std::make_unique<LocalHost>(); }

}  // namespace lockstep::cli::setup
