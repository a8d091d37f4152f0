#pragma once
// What a seed decides before the world begins: sizes, settings, and which kinds of faults it will know ("swarm": a
// world in which everything fails all the time reaches less than many worlds with a few kinds of faults each).
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/uuid.hpp"
#include "engine/disk.hpp"
#include "engine/metadata/identity.hpp"
#include "replication/core/defects.hpp"
#include "tests/simulation/scheduler.hpp"

namespace lockstep::simulation {

struct FaultKinds {
  bool kill = false;
  bool power_cut = false;
  bool power_cut_both = false;
  bool freeze = false;
  bool shutdown = false;
  bool leave = false;
  bool network = false;
  bool session_break = false;
  bool witness = false;
  bool store_errors = false;
  bool store_hang = false;
  bool store_slow = false;
  bool store_full = false;
  bool corruption = false;
};

struct Scenario {
  std::uint64_t seed = 0;
  engine::Uuid pair;
  engine::Uuid first_epoch;
  bool born_dirty = false;  ///< the dirty maps start with every bit set
  std::vector<engine::DiskInfo> volumes;
  std::uint32_t region_size = 4096;  ///< bytes
  std::uint64_t regions = 64;        ///< of each volume
  std::uint64_t grown_regions = 0;   ///< that the first volume has in the end; 0: it does not grow
  engine::ArbiterSettings arbiter;
  engine::NodeSide first_sequencer = engine::NodeSide::a;

  Nanos lease = 0;
  Nanos heartbeat = 0;
  Nanos clean_after = 0;
  Nanos store_deadline = 0;
  std::uint64_t dirty_bound = 0;     ///< bytes
  std::uint64_t resync_ceiling = 0;  ///< bytes a second, 0: none
  std::uint32_t clock_rate[2] = {1'000'000, 1'000'000};

  bool reservations = false;  ///< initiators reserve, and their commands are judged by that
  unsigned initiators = 2;
  unsigned depth = 2;         ///< operations an initiator keeps outstanding
  unsigned operations = 400;  ///< over all initiators
  Nanos think = 0;            ///< longest pause between two operations of a lane
  Nanos duration = 0;         ///< of the time of faults
  Nanos longest_quiet = 0;    ///< between two faults
  Nanos slowest_store = 0;
  Nanos slowest_link = 0;
  FaultKinds faults;
  replication::Defects defects;

  [[nodiscard]] std::uint64_t volume_size() const { return regions * region_size; }  ///< bytes, at first
  [[nodiscard]] std::uint64_t grown_size() const { return grown_regions * region_size; }
  [[nodiscard]] std::uint64_t largest_size() const { return std::max(volume_size(), grown_size()); }
};

[[nodiscard]] Scenario draw_scenario(std::uint64_t seed, SimRandom& random);
/// One line for people.
[[nodiscard]] std::string describe(const Scenario& scenario);

}  // namespace lockstep::simulation
