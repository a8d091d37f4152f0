#pragma once
// What runs on a simulated machine: the mirror (pair_program.hpp), or a fake that the simulator is tested with.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/disk.hpp"
#include "engine/scsi/lu_state.hpp"
#include "replication/core/pair_node.hpp"
#include "tests/simulation/scenario.hpp"
#include "tests/simulation/sim_clock.hpp"
#include "tests/simulation/sim_left_records.hpp"
#include "tests/simulation/sim_link.hpp"
#include "tests/simulation/sim_store.hpp"
#include "tests/simulation/sim_witness.hpp"

namespace lockstep::simulation {

struct VolumeStores {
  std::unique_ptr<SimStore> data;
  std::unique_ptr<SimStore> metadata;
};

/// What a program hears and says; called on the node's events.
class ProgramOutlet {
 public:
  virtual ~ProgramOutlet() = default;
  virtual void volume_changed(unsigned volume) = 0;
  virtual void fenced() = 0;
  /// The initiators' sessions on that thread are closed: of a program with several.
  virtual void closed_on(unsigned thread) { (void)thread; }
  /// The volume's logical unit had this state on disk: it is in force when the first command is answered under it.
  virtual void state_loaded(unsigned volume, const scsi::LuState& state) { (void)volume, (void)state; }
  /// The volume's logical unit has this state now.
  virtual void state_installed(unsigned volume, const scsi::LuState& state) { (void)volume, (void)state; }
  /// The program can't take the volume into use; says why.
  virtual void attach_refused(unsigned volume, const engine::Error& why) = 0;
  /// The program's machine was set back with its memory, as it has found: it answers nothing any more, and is to end.
  virtual void found_set_back(const std::string& why) { (void)why; }
};

/// The lease, as a node's management tells it.
struct LeaseTold {
  Nanos lease = 0;  ///< 0: as the scenario has it
  Nanos other = 0;  ///< that it takes the place of, or that is about to take its place; 0: none
  bool operator==(const LeaseTold&) const = default;
};

/// A thread of the node's process, with its timers.
struct MachineThread {
  Owner owner;
  SimClock& clock;
};

/// The machine, as its program sees it.
struct Machine {
  engine::NodeSide side;
  const Scenario& scenario;
  Trace& trace;
  Verdict& verdict;
  Scheduler& scheduler;
  Owner owner;
  SimClock& clock;
  SimRandom random;  ///< this process's own stream
  SimLink& link;
  replication::Witness* witness;
  replication::Fence* fence;
  std::vector<VolumeStores>& stores;
  LeftOnDisk& left_records;
  const std::uint64_t& wanted_size;      ///< of the first volume, by the configuration; 0: as it was made
  const replication::ArbiterWish& wish;  ///< for all volumes, as its management was told
  const LeaseTold& lease;                ///< the same, where it is changed in use
  ProgramOutlet& outlet;
  const std::vector<std::unique_ptr<SimLink>>& paths;  ///< of the way out, of each shard in turn; `link` is the first
  std::vector<MachineThread> threads;                  ///< one for each shard; `owner` and `clock` are the first's
  std::vector<unsigned> shards;                        ///< where its configuration has each volume
  const std::uint64_t& witness_uses;                   ///< times that another one took its place
  engine::Uuid process;                                ///< whose memory it has; nil: it is a new one
};

[[nodiscard]] const char* state_name(replication::MirrorState state);

/// Destroyed to play a kill: by then no callback of its is left anywhere.
class Program {
 public:
  virtual ~Program() = default;
  virtual void start() = 0;
  [[nodiscard]] virtual engine::Disk* disk(unsigned volume) = 0;
  /// Nothing while the volume is not attached.
  [[nodiscard]] virtual std::optional<replication::VolumeStatus> status(unsigned volume) = 0;
  /// What it has learnt, as durable there.
  [[nodiscard]] virtual std::optional<engine::Knowledge> learnt(unsigned volume) { return (void)volume, std::nullopt; }
  [[nodiscard]] virtual engine::Uuid process() const { return {}; }
  [[nodiscard]] virtual replication::LinkEvents& link_events() = 0;
  // Of kinds with several threads. A session's commands go from its own thread to that of their volume, and back.
  [[nodiscard]] virtual unsigned shard_of(unsigned volume) const { return (void)volume, 0; }
  virtual void post(unsigned thread, engine::Callback<> work) { (void)thread, (void)work; }
  /// For DiskRequest::came_since of what comes by a session on that thread, which calls.
  [[nodiscard]] virtual engine::TimePoint came_since(unsigned thread) { return (void)thread, engine::TimePoint{}; }
  /// Whether the pair's arbiter is the command that powers the partner off.
  virtual void use_fence(bool on) { (void)on; }
  /// Those of one path, of the kinds that take several.
  [[nodiscard]] virtual replication::LinkEvents& path_events(std::size_t path) { return (void)path, link_events(); }
  using Said = engine::Callback<engine::Result<void>>;
  /// An operator has given it another address, as it were.
  virtual void change_path(std::size_t path) { (void)path; }
  virtual void leave(unsigned volume, Said done) = 0;
  void leave(unsigned volume) {
    leave(volume, [](engine::Result<void>) {});
  }
  /// Taken out of service and into it again, by the same process; only of kinds that do.
  virtual void attach_again(unsigned volume) { (void)volume; }
  /// Taken out of service, and into it again with blank stores in the place of its own, whose record `survivor` gives
  /// when nothing of the old copy is in use any more; with the old ones where it gives none. Only of kinds that do.
  using Survivor = std::function<std::optional<engine::EpochRecord>()>;
  virtual void replace_copy(unsigned volume, Survivor survivor) { (void)volume, (void)survivor; }
  virtual void look_at_witness_again() {}
  virtual void want_arbiter(unsigned volume, replication::ArbiterWish wish) { (void)volume, (void)wish; }
  virtual void set_lease(Nanos lease, Nanos other) { (void)lease, (void)other; }
  [[nodiscard]] virtual replication::PairNode::LeaseStatus lease() { return {}; }
  /// `told`: hosts may be, that it is as was said.
  virtual void set_write_cache(
      unsigned volume, bool on, std::function<void()> told = [] {}) {
    (void)volume, (void)on, (void)told;
  }
  /// An operator's words on a volume in trouble; only of kinds that have a partner.
  virtual void force_solo(unsigned volume, bool accept_inconsistent, Said done) {
    (void)volume, (void)accept_inconsistent;
    done(engine::fail(engine::Errc::refused, "Nothing is mirrored here."));
  }
  virtual void give_up(unsigned volume, Said done) {
    (void)volume;
    done(engine::fail(engine::Errc::refused, "Nothing is mirrored here."));
  }
  /// Growing (docs/developer/grow.md); only of kinds that do.
  virtual void make_room(unsigned volume, std::uint64_t size, engine::Callback<engine::Result<void>> done) = 0;
  virtual void want_size(unsigned volume, std::uint64_t size) = 0;
  /// The same, and room is made for it where there is none yet.
  virtual void take_size(unsigned volume, std::uint64_t size) = 0;
  /// The stores are the caller's again when `done` runs; only of kinds that replicate.
  virtual void detach(unsigned volume, engine::Callback<> done) { (void)volume, (void)done; }
  virtual void shutdown(engine::Callback<> done) = 0;
};

/// How a kind of program is put on two machines.
struct ProgramKind {
  std::function<std::uint64_t(const Scenario&)> metadata_size;
  /// Lays out both replicas; runs the scheduler until that is done.
  std::function<void(Machine&)> format;
  std::function<std::unique_ptr<Program>(Machine&)> start;
  /// True when what metadata holds in `damaged` is refused or no less safe than in `whole`; else says what is wrong.
  std::function<std::optional<std::string>(Machine&, unsigned volume, SimRandom&)> corruption_probe;
  /// A message on the link, for those who read a trace; may be empty.
  MessageReader read_message;
  bool replicates = true;   ///< promises 1 and 5 concern its stores
  bool keeps_state = true;  ///< its disks know reservations
  bool grows = true;
  MessageFilter is_heartbeat;  ///< by a request's header; may be empty
  /// What that side's metadata holds, in service or not; empty where a kind keeps no such record.
  std::function<std::optional<engine::EpochRecord>(const Scenario&, engine::NodeSide, unsigned volume,
                                                   std::span<const std::byte> metadata)>
      recorded;
  bool changes_arbiter = true;
  bool changes_lease = true;
  bool takes_paths = false;  ///< more than one
};

}  // namespace lockstep::simulation
