#pragma once
// This machine.
#include <memory>

#include "ui-api/cli/setup/host.hpp"

namespace lockstep::cli::setup {

[[nodiscard]] std::unique_ptr<Host> make_local_host();

// The parts of it, each in a file of its own.
[[nodiscard]] PortState state_of_port(const mgmt::Address& address);
[[nodiscard]] PacketState try_packets(const mgmt::Address& from, const mgmt::Address& to, unsigned bytes);
[[nodiscard]] FolderState state_of_folder(const std::string& path);
[[nodiscard]] Outcome<Finished> run_program(const std::vector<std::string>& words);

}  // namespace lockstep::cli::setup
