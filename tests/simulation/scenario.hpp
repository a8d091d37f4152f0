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
#include "replication/core/link.hpp"
#include "replication/core/link_budget.hpp"
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
  bool paths = false;       ///< one path's wires are cut, or stand still one way, or its sessions break
  bool shard_link = false;  ///< the same with all of one shard's paths
  bool thread = false;      ///< one of a node's threads stands still, and the others go on
  bool misplaced = false;   ///< a process starts with a volume in another shard than its partner has it in
  bool witness = false;
  bool store_errors = false;
  bool store_hang = false;
  bool store_slow = false;
  bool store_full = false;
  bool corruption = false;
  // Of these, switches.hpp tells the chances.
  bool stall = false;            ///< a store stands still as a whole, then does everything in order
  bool one_way_stall = false;    ///< one direction of a way stands still, the other flows
  bool restart_at_once = false;  ///< a process dies, and another runs within milliseconds
  bool long_freeze = false;
  bool pause = false;         ///< a virtual machine stands still, and its clock with it
  bool revert = false;        ///< a machine is set back to a snapshot of its disks
  bool revert_both = false;   ///< both machines are, and perhaps the witness
  bool revert_alone = false;  ///< … also to when it was the only member, and at first it hears nobody
  bool memory = false;        ///< a machine is set back with its memory: the same process runs again
  bool detach = false;        ///< an operator takes a volume out of service, and into it again
  bool force = false;         ///< an operator says that the partner is gone for good; it may not be
  bool replace = false;       ///< an operator has a new copy made in the place of one whose partner goes on alone
  bool give_up = false;       ///< an operator has a replica give up its changes, also when there is nothing to give up
  bool two_orders = false;    ///< operators order another thing before the first one has ended
  bool write_cache = false;   ///< an operator puts it on and off
  bool bad_sectors = false;   ///< a disk loses some for good, until they are written; mostly as both nodes start
  bool dies_twice = false;    ///< a process dies, and soon after the next one runs, its machine loses power
  bool two_at_once = false;   ///< a store fails, and its volume is detached, or its partner's process replaced
  bool both_stores = false;   ///< what one node's store fails, the other's fails, too
  bool pool_full = false;     ///< data stores find no space for what was set aside, mostly on both nodes
  bool witness_slow = false;  ///< takes seconds, and carries out what was given up
  bool witness_set_back = false;     ///< to what it was at an earlier moment
  bool witness_emptied = false;      ///< another one in its place, or the same without its disk
  bool witness_overwritten = false;  ///< by somebody who can write to it, and has not the nodes' key

  bool operator==(const FaultKinds&) const = default;
};

/// What initiators do besides sending commands.
struct HostKinds {
  bool impatient = false;  ///< commands have a timeout: then the host aborts, or ends the session, and tries elsewhere
  bool hasty = false;      ///< the timeout is shorter than two leases
  bool quick_logouts = false;  ///< sessions end at any moment, by logout or reinstatement
  bool quick_drops = false;    ///< connections break at any moment, and the node knows at once
  bool late_drops = false;     ///< … and the node knows up to a lease later
  Nanos patience = 0;          ///< of a command; more than a lease and the margin for drift
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
  engine::ArbiterSettings arbiter;   ///< at first
  bool changes_arbiter = false;      ///< in use, again and again
  bool fences_in_use = false;        ///< … also to the command that powers the other node off
  bool changes_lease = false;        ///< in use, again and again; never to a longer one than `lease`
  engine::NodeSide first_sequencer = engine::NodeSide::a;

  Nanos lease = 0;         ///< of both nodes, or the shorter one,
  Nanos longer_lease = 0;  ///< … and what node B has configured; 0: the same
  Nanos heartbeat = 0;
  Nanos clean_after = 0;
  Nanos store_deadline = 0;
  std::uint64_t dirty_bound = 0;                        ///< bytes
  std::uint64_t resync_ceiling = 0;                     ///< bytes a second, 0: none
  std::uint64_t resync_floor = std::uint64_t{8} << 20;  ///< where there is no ceiling
  std::uint32_t clock_rate[2] = {1'000'000, 1'000'000};

  bool reservations = false;  ///< initiators reserve, and their commands are judged by that
  bool lone_host = false;     ///< with one command at a time: nobody else's commands wake what was forgotten
  unsigned initiators = 2;
  unsigned depth = 2;         ///< operations an initiator keeps outstanding
  unsigned operations = 400;  ///< over all initiators
  Nanos think = 0;            ///< longest pause between two operations of a lane
  Nanos duration = 0;         ///< of the time of faults
  Nanos longest_quiet = 0;    ///< between two faults
  Nanos slowest_store = 0;
  Nanos slowest_link = 0;
  bool fence = false;   ///< each node's arbiter is a command that powers the other off, whatever was drawn before
  bool cached = false;  ///< power cuts may take what the volumes' write caches hold
  bool long_deadline = false;   ///< the stores' is as long as it is shipped: hosts lose patience first
  bool reorder = false;         ///< answers on the link overtake one another by far
  std::uint32_t reordered = 0;  ///< of these: chance in a million that an answer is late,
  Nanos longest_overtaken = 0;  ///< … and by how much at most
  engine::NodeSide reverted = engine::NodeSide::a;  ///< the only one that is ever set back
  bool narrow_link = false;               ///< the link takes little at once, and each node sends little at once
  std::size_t link_window = 0;            ///< of these: requests at the receiver; 0: any number
  std::uint64_t link_bytes_a_second = 0;  ///< 0: any
  std::uint16_t link_version = replication::kPartnerVersions.highest;  ///< that both nodes' programs speak
  bool late_closes = false;    ///< sessions that are to be closed are so a moment later, as on a node of several cores
  bool several_paths = false;  ///< the link has up to four of them, which come and go each for itself
  std::size_t paths = 1;       ///< of each way of the link, of each shard; the last ones are
  std::size_t rdma_paths = 0;  ///< … over RDMA, each beside one over TCP through the same network
  std::size_t rdma_payload = 0;  ///< bytes up to which a payload goes with its message there
  bool several_shards = false;   ///< each node has two, and volumes in both
  unsigned shards = 1;
  std::vector<unsigned> shards_of;  ///< of each volume
  Nanos latest_wake = 0;            ///< of a thread that sleeps and is posted something
  bool attaches_first = false;      ///< a process begins when all its volumes are attached, as lockstepd does
  bool crowded = false;             ///< hosts mostly use the same few blocks of each volume
  bool older_programs = false;      ///< each that starts speaks the highest version, or the lowest
  replication::LinkLimits link_orders, link_forwards, link_copies;  ///< none: as shipped
  bool virtual_machines =
      false;  ///< the nodes know that their clocks may stand still; in any case where they are paused
  HostKinds hosts;
  bool bad_moments = false;  ///< faults like to follow a change of a volume's state
  FaultKinds faults;

  /// Nothing is ever broken in this world.
  [[nodiscard]] bool faultless() const { return faults == FaultKinds{}; }
  /// Of all paths, of each shard in turn.
  [[nodiscard]] bool is_rdma(std::size_t path) const { return path % paths >= paths - rdma_paths; }
  /// The path over the same network, by the other transport; itself where there is none.
  [[nodiscard]] std::size_t twin_of(std::size_t path) const {
    if (is_rdma(path)) return path - (paths - rdma_paths);
    return path % paths < rdma_paths ? path + (paths - rdma_paths) : path;
  }
  [[nodiscard]] unsigned shard_of(unsigned volume) const { return shards == 1 ? 0 : shards_of[volume]; }
  [[nodiscard]] std::uint64_t volume_size() const { return regions * region_size; }  ///< bytes, at first
  [[nodiscard]] std::uint64_t grown_size() const { return grown_regions * region_size; }
  [[nodiscard]] std::uint64_t largest_size() const { return std::max(volume_size(), grown_size()); }
};

[[nodiscard]] Scenario draw_scenario(std::uint64_t seed, SimRandom& random);
/// One line for people.
[[nodiscard]] std::string describe(const Scenario& scenario);

}  // namespace lockstep::simulation
