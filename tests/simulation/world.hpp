#pragma once
// Everything of one run: two machines, the wires, the witness, the initiators, the nemesis and the checkers, from one
// seed. run() plays it to the end and says whether a promise was broken.
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/arbiter_changer.hpp"
#include "tests/simulation/bad_sectors.hpp"
#include "tests/simulation/checkers.hpp"
#include "tests/simulation/final_commands.hpp"
#include "tests/simulation/grower.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/host.hpp"
#include "tests/simulation/initiator.hpp"
#include "tests/simulation/lease_changer.hpp"
#include "tests/simulation/nemesis.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/program.hpp"
#include "tests/simulation/scenario.hpp"
#include "tests/simulation/state_checker.hpp"
#include "tests/simulation/switches.hpp"
#include "tests/simulation/write_caches.hpp"

namespace lockstep::simulation {

struct Outcome {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  std::size_t writes = 0;
  std::size_t reads = 0;
  Nanos simulated = 0;
  std::string violation;  ///< empty: every promise was kept
  std::string scenario;
};

struct WorldOptions {
  std::uint64_t seed = 1;
  std::FILE* trace = nullptr;
  bool without_faults = false;
  SwitchOrders switches;
  std::function<void(Scenario&)> adjust;  ///< for worlds that are made by hand
};

class World {
 public:
  World(const WorldOptions& options, const ProgramKind& kind);
  ~World();
  Outcome run();

  // For the parts.
  [[nodiscard]] Host& host(engine::NodeSide side) { return *hosts_[static_cast<std::size_t>(side)]; }
  /// The only path of that node's way out, or the first; of that shard's.
  [[nodiscard]] SimLink& way_from(engine::NodeSide side, unsigned shard = 0) {
    return *paths_from(side)[shard * scenario.paths];
  }
  [[nodiscard]] const std::vector<std::unique_ptr<SimLink>>& paths_from(engine::NodeSide side) const {
    return ways_[static_cast<std::size_t>(side)];
  }
  /// What that node sends arrives, or not, by every path,
  void cut(engine::NodeSide from, bool open);
  /// … or by this one.
  void cut_path(std::size_t path, engine::NodeSide from, bool open);
  /// What that node sends by this path and is larger is lost, each time; 0: nothing is.
  void lose_large(std::size_t path, engine::NodeSide from, std::size_t largest);
  /// Of every shard, the first path's wires are whole.
  [[nodiscard]] bool is_whole() const;
  [[nodiscard]] bool all_in_sync();
  void run_until(Nanos when);

  Verdict verdict;
  Trace trace;
  SimRandom random;
  Scenario scenario;
  Scheduler scheduler;
  const ProgramKind& kind;
  std::vector<Network> networks;  ///< of each path, of each shard in turn
  Network& network;               ///< of the first
  SimWitness witness;
  History history;
  std::unique_ptr<Checkers> checkers;
  std::unique_ptr<StateChecker> states;
  std::unique_ptr<WriteCaches> caches;
  std::vector<std::unique_ptr<Initiator>> initiators;
  std::unique_ptr<Nemesis> nemesis;
  std::unique_ptr<Grower> grower;
  std::unique_ptr<BadSectors> bad_sectors;
  std::unique_ptr<FinalCommands> final_commands;
  std::unique_ptr<ArbiterChanger> arbiter_changer;
  std::unique_ptr<LeaseChanger> lease_changer;
  std::uint64_t wanted_size = 0;  ///< of the first volume, as its operator decided; 0: as it was made
  unsigned operations_left = 0;

 private:
  void settle();
  void read_everything();
  void compare_replicas();
  void explain_no_sync();
  void demand_answers(Nanos healed);

  std::array<std::vector<std::unique_ptr<SimLink>>, 2> ways_;
  std::array<std::unique_ptr<Host>, 2> hosts_;
};

}  // namespace lockstep::simulation
