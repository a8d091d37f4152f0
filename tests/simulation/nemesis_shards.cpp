// What befalls one shard of a node's alone: its link, a flow of that, or its thread.
#include "tests/simulation/nemesis.hpp"
#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::NodeSide;

/// Where there is one alone, chance has no part in it.
unsigned Nemesis::some_shard() {
  const unsigned shards = world_.scenario.shards;
  return shards == 1 ? 0 : static_cast<unsigned>(random_.below(shards));
}

SimLink& Nemesis::some_way_from(NodeSide side) { return world_.way_from(side, some_shard()); }

/// All paths of one shard's link, as a firewall does that knows its ports: the other shards' go on. Often for longer
/// than a lease; and when that runs out, what another shard has sent may be on its way.
void Nemesis::spoil_shard_link(Host& host) {
  const std::uint64_t shard = some_shard();
  const std::uint64_t of = shard << 1 | number(host.side());
  const std::size_t each = world_.scenario.paths;
  const std::uint64_t how = random_.below(5);
  for (std::size_t path = shard * each; path < (shard + 1) * each; ++path) {
    SimLink& way = *world_.paths_from(host.side())[path];
    if (how == 0) {
      way.break_session();
    } else if (how <= 2) {
      world_.cut_path(path, host.side(), false);
      if (how == 2) world_.cut_path(path, engine::other(host.side()), false);
    } else {
      way.hold(static_cast<SimLink::Flow>(how - 3), true);
    }
  }
  const Nanos lease = world_.scenario.lease;
  world_.scheduler.after(some_leases(20 * kMillisecond, 8 * kSecond), Owner::world, &Nemesis::on_mend_shard_link, this,
                         of);
  if (how == 0 || !random_.chance(700'000)) return;
  const auto others = static_cast<unsigned>(1 - shard);
  const std::uint64_t flow = number(forwarding_side(others)) | (random_.chance(850'000) ? 0 : 2) | (1 - shard) << 2;
  world_.scheduler.after(random_.between(lease * 7 / 10, lease * 11 / 10), Owner::world, &Nemesis::on_hold_shard, this,
                         flow);
}

/// That does not order the writes to some volume of the shard's.
NodeSide Nemesis::forwarding_side(unsigned shard) {
  const Scenario& s = world_.scenario;
  for (unsigned v = 0; v < s.volumes.size(); ++v) {
    const auto status = s.shard_of(v) == shard ? either().status(v) : std::nullopt;
    if (status) return engine::other(status->epoch.sequencer);
  }
  return either().side();
}

/// Flows have numbers: of each node's way, requests and answers, of each shard in turn.
void Nemesis::stall_flow() {
  const std::uint64_t flow = random_.below(4) | static_cast<std::uint64_t>(some_shard()) << 2;
  world_.way_from(side_of(flow & 1), static_cast<unsigned>(flow >> 2))
      .hold(static_cast<SimLink::Flow>(flow >> 1 & 1), true);
  world_.scheduler.after(some_leases(50 * kMillisecond, 8 * kSecond), Owner::world, &Nemesis::on_flow_goes_on, this,
                         flow);
}

void Nemesis::on_flow_goes_on(void* self, std::uint64_t flow) {
  static_cast<Nemesis*>(self)
      ->world_.way_from(side_of(flow & 1), static_cast<unsigned>(flow >> 2))
      .hold(static_cast<SimLink::Flow>(flow >> 1 & 1), false);
}

/// The same on all of its paths.
void Nemesis::hold_shard(std::uint64_t flow, bool held) {
  const std::size_t each = world_.scenario.paths;
  for (std::size_t path = (flow >> 2) * each; path < ((flow >> 2) + 1) * each; ++path) {
    world_.paths_from(side_of(flow & 1))[path]->hold(static_cast<SimLink::Flow>(flow >> 1 & 1), held);
  }
}

/// For less than a lease, so that this one's is held.
void Nemesis::on_hold_shard(void* self, std::uint64_t flow) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  if (nemesis.over_ || nemesis.careful()) return;
  const Nanos lease = nemesis.world_.scenario.lease;
  nemesis.hold_shard(flow, true);
  nemesis.world_.scheduler.after(nemesis.random_.between(lease / 20, lease * 3 / 4), Owner::world,
                                 &Nemesis::on_shard_goes_on, self, flow);
}

void Nemesis::on_shard_goes_on(void* self, std::uint64_t flow) { static_cast<Nemesis*>(self)->hold_shard(flow, false); }

void Nemesis::sessions_are_closed(Host& host) {
  if (!world_.scenario.faults.shard_link || !random_.chance(400'000)) return;
  on_hold_shard(this, number(host.side()) | static_cast<std::uint64_t>(some_shard()) << 2);
}

void Nemesis::on_mend_shard_link(void* self, std::uint64_t of) {
  const std::size_t each = static_cast<Nemesis*>(self)->world_.scenario.paths;
  for (std::size_t path = (of >> 1) * each; path < ((of >> 1) + 1) * each; ++path) {
    on_mend_path(self, path << 3 | (of & 1));
  }
}

void Nemesis::freeze_thread(Host& host) {
  if (!host.running() || host.frozen()) return;
  host.freeze_thread(some_shard());
  world_.scheduler.after(some_leases(kMillisecond, 12 * kSecond), Owner::world, &Nemesis::on_thaw, this,
                         number(host.side()));
}

}  // namespace lockstep::simulation
