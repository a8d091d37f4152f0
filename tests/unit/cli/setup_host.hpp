#pragma once
// A machine for set-up that exists in the test alone: all is well with it until the test says otherwise.
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ui-api/cli/setup/host.hpp"

namespace lockstep::cli::setup {

class ImaginedHost final : public Host {
 public:
  Places where;
  std::vector<Interface> has{
      {"lo", {"127.0.0.1"}, 65536, true}, {"eth0", {"10.0.0.11"}, 1500}, {"eth1", {"10.0.1.11"}, 9000}};
  std::map<std::string, PortState> ports;  ///< by "host:port"; else free
  ClockState time{ClockState::Synchronised::yes, 1'800'000'000};
  std::map<std::string, FolderState> folders;  ///< else not there
  PacketState::Outcome packets_end = PacketState::Outcome::reached;
  Finished program_ends;
  std::vector<std::vector<std::string>> programs_run;

  static FolderState good_folder() {
    FolderState state;
    state.there = true;
    state.free_bytes = std::uint64_t{100} << 30;
    return state;
  }

  Places places() const override { return where; }
  bool is_root() override { return true; }
  bool has_systemd() override { return true; }
  std::vector<Interface> interfaces() override { return has; }
  PortState port(const mgmt::Address& address) override {
    const auto found = ports.find(address.host + ":" + std::to_string(address.port));
    return found == ports.end() ? PortState{PortState::Use::free, ""} : found->second;
  }
  ClockState clock() override { return time; }
  FolderState folder(const std::string& path) override {
    const auto found = folders.find(path);
    return found == folders.end() ? FolderState{} : found->second;
  }
  PacketState packets(const mgmt::Address&, const mgmt::Address&, unsigned) override { return {packets_end}; }
  Outcome<Finished> run(const std::vector<std::string>& words) override {
    programs_run.push_back(words);
    return program_ends;
  }
};

}  // namespace lockstep::cli::setup
