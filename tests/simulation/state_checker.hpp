#pragma once
// The logical unit's state as initiators and nodes show it: one line of states, each in force on both nodes before its
// change is acknowledged, and no command passes that the state in force forbids.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/scsi/lu_state.hpp"
#include "tests/simulation/host.hpp"

namespace lockstep::simulation {

class World;

class StateChecker {
 public:
  explicit StateChecker(World& world);

  /// A node's new process finds `state` on its disk. What a crash left there may come into force although nobody was
  /// ever told of it; it does when the node answers a command before it was given another.
  void loaded(Host& host, unsigned volume, const scsi::LuState& state);
  /// A node puts `state` in force: the only one of its version, ever.
  void installed(Host& host, unsigned volume, const scsi::LuState& state);
  /// No version below this is in force for what begins now.
  [[nodiscard]] std::uint64_t floor(unsigned volume) const { return volumes_[volume].floor; }
  /// `host` says that a change is made (or need not be).
  void change_answered(Host& host, unsigned volume);
  /// … and what the state is; asked when `floor` was the floor.
  void state_shown(Host& host, unsigned volume, std::span<const std::byte> bytes, std::uint64_t floor);
  /// … and that a command is done (ok), or refused for what LuState::check() says.
  void command_answered(Host& host, unsigned volume, const scsi::NexusKey& nexus, scsi::AccessClass access,
                        engine::Errc said, std::uint64_t floor);

 private:
  struct Volume {
    std::map<std::uint64_t, scsi::LuState> states;  ///< that were ever in force
    std::uint64_t floor = 0;
    std::array<std::uint64_t, 2> in_force{};               ///< on each node
    std::array<std::optional<scsi::LuState>, 2> loaded{};  ///< by each node, and perhaps not in force yet
  };
  void take_up(Host& host, unsigned volume);

  World& world_;
  std::vector<Volume> volumes_;
};

}  // namespace lockstep::simulation
