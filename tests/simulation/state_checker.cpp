#include "tests/simulation/state_checker.hpp"

#include <algorithm>

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::Errc;

StateChecker::StateChecker(World& world) : world_(world) {
  volumes_.resize(world.scenario.volumes.size());
  for (Volume& v : volumes_) v.states.emplace(0, scsi::LuState{});
}

void StateChecker::loaded(Host& host, unsigned volume, const scsi::LuState& state) {
  volumes_[volume].loaded[static_cast<std::size_t>(host.side())] = state;
  world_.trace.add(host.name(), "state.loaded", {{"volume", volume}, {"version", state.version}});
}

/// The node answers under the state that it came back with.
void StateChecker::take_up(Host& host, unsigned volume) {
  const auto& state = volumes_[volume].loaded[static_cast<std::size_t>(host.side())];
  if (state) installed(host, volume, scsi::LuState(*state));
}

void StateChecker::installed(Host& host, unsigned volume, const scsi::LuState& state) {
  Volume& v = volumes_[volume];
  v.loaded[static_cast<std::size_t>(host.side())].reset();
  v.in_force[static_cast<std::size_t>(host.side())] = state.version;
  const auto [known, added] = v.states.emplace(state.version, state);
  world_.trace.add(host.name(), "state.installed", {{"volume", volume}, {"version", state.version}});
  if (added || known->second == state) return;
  world_.verdict.fail(std::string("one state: node ") + host.name() + " puts another state in force as version " +
                      std::to_string(state.version) + " of volume " + std::to_string(volume));
}

void StateChecker::change_answered(Host& host, unsigned volume) {
  Volume& v = volumes_[volume];
  v.floor = std::max(v.floor, v.in_force[static_cast<std::size_t>(host.side())]);
}

void StateChecker::state_shown(Host& host, unsigned volume, std::span<const std::byte> bytes, std::uint64_t floor) {
  take_up(host, volume);
  Volume& v = volumes_[volume];
  const auto state = scsi::LuState::decode(bytes);
  if (!state) return world_.verdict.fail("one state: what a node shows as its state can't be read");
  const auto known = v.states.find(state->version);
  const bool fits = known != v.states.end() && known->second == *state && state->version >= floor;
  v.floor = std::max(v.floor, state->version);
  if (fits) return;
  world_.verdict.fail(std::string("one state: node ") + host.name() + " shows version " +
                      std::to_string(state->version) + " of volume " + std::to_string(volume) + "'s state, after " +
                      std::to_string(floor) + " had been acknowledged");
}

void StateChecker::command_answered(Host& host, unsigned volume, const scsi::NexusKey& nexus, scsi::AccessClass access,
                                    Errc said, std::uint64_t floor) {
  take_up(host, volume);
  const Volume& v = volumes_[volume];
  for (auto at = v.states.lower_bound(floor); at != v.states.end(); ++at) {
    if (at->second.check(&nexus, access) == said) return;
  }
  world_.verdict.fail(std::string("one state: node ") + host.name() + (said == Errc::ok ? " carries out" : " refuses") +
                      " a command of " + nexus.initiator + " on volume " + std::to_string(volume) +
                      " that no state from version " + std::to_string(floor) + " on " +
                      (said == Errc::ok ? "allows" : "refuses so"));
}

}  // namespace lockstep::simulation
