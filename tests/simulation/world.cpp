#include "tests/simulation/world.hpp"

#include <algorithm>
#include <utility>

#include "tests/simulation/dark.hpp"

namespace lockstep::simulation {

using engine::NodeSide;
using replication::MirrorState;

namespace {
constexpr Nanos kLooks = 22 * kSecond;            ///< within which both nodes look at their witness
constexpr Nanos kPatience = 120 * kSecond;        ///< simulated; within which a healed pair must be in sync again
constexpr Nanos kAnswered = 45 * kSecond;         ///< within which operations end in a healed pair
constexpr std::uint64_t kMostEvents = 3'000'000;  ///< a world that needs more is in a loop
}  // namespace

namespace {
/// Of kinds that take one, there is one.
std::size_t count_of_paths(Scenario& scenario, const ProgramKind& kind) {
  if (!kind.takes_paths) {
    scenario.shards = scenario.paths = 1;
    scenario.rdma_paths = 0;
  }
  return scenario.shards * scenario.paths;
}

Scenario drawn(const WorldOptions& options, SimRandom& random) {
  Scenario scenario = draw_scenario(options.seed, random);
  draw_switches(scenario, options.switches);
  if (options.adjust) options.adjust(scenario);
  return scenario;
}
}  // namespace

World::World(const WorldOptions& options, const ProgramKind& program)
    : trace(options.trace),
      random(options.seed),
      scenario(drawn(options, random)),
      scheduler(trace, random.split()),
      kind(program),
      networks(count_of_paths(scenario, kind)),
      network(networks.front()) {
  scenario.reservations &= kind.keeps_state;
  if (!kind.grows) scenario.grown_regions = 0;
  scenario.changes_arbiter &= kind.changes_arbiter;
  scenario.changes_lease &= kind.changes_lease;
  if (scenario.faults.force || scenario.faults.revert_both || is_dark(scenario))
    scenario.reservations = false;  // each side of a split has a state of its own
  if (options.without_faults) {
    scenario.faults = {};
    settle_switches(scenario, options.switches);
  }
  LinkTimes times{scenario.slowest_link, 4 * kSecond};
  if (scenario.reorder) times.late = scenario.reordered, times.latest = scenario.longest_overtaken;
  times.window = scenario.link_window;
  times.bytes_a_second = scenario.link_bytes_a_second;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    SimRandom first = random.split();
    SimRandom further(scenario.seed ^ (static_cast<std::uint64_t>(side) + 1) * 0x9E3779B97F4A7C15);
    for (std::size_t path = 0; path < networks.size(); ++path) {
      const auto shard = static_cast<unsigned>(path / scenario.paths);
      const SimLink::World seams{
          scheduler,
          trace,
          verdict,
          networks[path],
          &kind.read_message,
          &kind.is_heartbeat,
          shard,
          scenario.is_rdma(path) ? replication::PathTransport::rdma : replication::PathTransport::tcp,
          {scenario.rdma_payload, scenario.rdma_payload}};
      ways_[static_cast<std::size_t>(side)].push_back(
          std::make_unique<SimLink>(seams, path == 0 ? first : further.split(), side, times));
    }
  }
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    hosts_[static_cast<std::size_t>(side)] = std::make_unique<Host>(*this, side, random.split());
  }
  checkers = std::make_unique<Checkers>(*this);
  states = std::make_unique<StateChecker>(*this);
  caches = std::make_unique<WriteCaches>(*this);
  nemesis = std::make_unique<Nemesis>(*this, random.split());
  grower = std::make_unique<Grower>(*this);
  bad_sectors = std::make_unique<BadSectors>(*this);
  final_commands = std::make_unique<FinalCommands>(*this);
  arbiter_changer = std::make_unique<ArbiterChanger>(*this);
  lease_changer = std::make_unique<LeaseChanger>(*this);
  for (unsigned i = 0; i < scenario.initiators; ++i) {
    initiators.push_back(std::make_unique<Initiator>(*this, i, random.split()));
  }
  operations_left = scenario.operations;
}

World::~World() {
  for (auto& host : hosts_) {
    if (host->running()) host->end(Host::End::killed);
  }
}

void World::cut(NodeSide from, bool open) {
  for (std::size_t path = 0; path < networks.size(); ++path) cut_path(path, from, open);
}

void World::cut_path(std::size_t path, NodeSide from, bool open) {
  bool& is_open = networks[path].open[static_cast<std::size_t>(from)];
  if (std::exchange(is_open, open) == open) return;
  if (networks.size() == 1) {
    trace.add(from == NodeSide::a ? 'a' : 'b', open ? "wire.mended" : "wire.cut");
  } else {
    trace.add(from == NodeSide::a ? 'a' : 'b', open ? "wire.mended" : "wire.cut", {{"path", path}});
  }
  for (const auto& way : ways_) way[path]->network_changed();
}

void World::lose_large(std::size_t path, NodeSide from, std::size_t largest) {
  std::size_t& passes = networks[path].largest[static_cast<std::size_t>(from)];
  if (std::exchange(passes, largest) == largest) return;
  trace.add(from == NodeSide::a ? 'a' : 'b', "wire.passes", {{"path", path}, {"largest", largest}});
  for (const auto& way : ways_) way[path]->passes_more_or_less();
}

bool World::is_whole() const {
  for (std::size_t path = 0; path < networks.size(); path += scenario.paths) {
    if (!networks[path].whole()) return false;
  }
  return true;
}

Outcome World::run() {
  trace.note('-', "seed " + std::to_string(scenario.seed) + ": " + describe(scenario));
  for (const auto& h : hosts_) h->format();
  for (const auto& h : hosts_) h->boot();
  for (const auto& initiator : initiators) initiator->start();
  nemesis->start();
  grower->start();
  arbiter_changer->start();
  lease_changer->start();
  run_until(scheduler.now() + scenario.duration);
  if (!verdict.failed()) settle();
  if (!verdict.failed()) bad_sectors->read_each();
  if (!verdict.failed()) final_commands->demand_good_answers();
  checkers->end();
  if (!verdict.failed()) read_everything();
  if (const auto wrong = history.check()) verdict.fail(*wrong);
  // Last, since a history says more about what went wrong than two images do.
  if (!verdict.failed()) compare_replicas();
  Outcome outcome;
  outcome.seed = scenario.seed;
  outcome.hash = trace.hash();
  outcome.events = trace.events();
  outcome.writes = history.write_count();
  outcome.reads = history.read_count();
  outcome.simulated = scheduler.now();
  outcome.violation = verdict.reason();
  outcome.scenario = describe(scenario);
  return outcome;
}

void World::run_until(Nanos when) {
  while (!verdict.failed() && scheduler.now() < when) {
    if (!scheduler.step()) scheduler.wait_until(when);
    if (trace.events() > kMostEvents) return verdict.fail("liveness: the world runs in circles");
  }
}

bool World::all_in_sync() {
  for (const auto& h : hosts_) {
    if (!h->running() || h->stopping()) return false;
  }
  for (unsigned v = 0; v < scenario.volumes.size(); ++v) {
    const auto a = host(NodeSide::a).status(v);
    const auto b = host(NodeSide::b).status(v);
    for (const auto* s : {&a, &b}) {
      if (!*s || (*s)->state != MirrorState::in_sync || !(*s)->serving || (*s)->failover_limited) return false;
      if ((*s)->resync.running) return false;
    }
    if (a->epoch.id != b->epoch.id) return false;
  }
  return true;
}

void World::settle() {
  nemesis->heal();
  operations_left = std::min(operations_left, 20u);
  const Nanos healed = scheduler.now();
  const Nanos limit = healed + kPatience;
  const auto idle = [this] {
    for (const auto& initiator : initiators) {
      if (!initiator->idle()) return false;
    }
    return true;
  };
  while (!verdict.failed()) {
    run_until(scheduler.now() + 250 * kMillisecond);
    if (idle()) operations_left = 0;
    bool over = operations_left == 0 && idle() && scheduler.now() >= nemesis->ordered_until();
    over &= nemesis->orders_ended();
    // Time for both to notice what became of their witness.
    const auto& f = scenario.faults;
    const bool witness_changes = f.witness_set_back || f.witness_emptied || f.witness_overwritten;
    if (witness_changes) over &= scheduler.now() > healed + kLooks;
    const bool settled = grower->satisfied() && arbiter_changer->satisfied() && lease_changer->satisfied();
    if (over && all_in_sync() && settled) break;
    if (scheduler.now() > limit) return explain_no_sync();
    demand_answers(healed);
    nemesis->nurse();
  }
  trace.add('-', "world.settled");
  run_until(scheduler.now() + 2 * scenario.clean_after + kSecond);
  if (!verdict.failed() && !all_in_sync())
    verdict.fail("liveness: the volumes fell out of sync though nothing was broken any more");
}

void World::demand_answers(Nanos healed) {
  for (const auto& initiator : initiators) {
    if (scheduler.now() < std::max(healed, initiator->waits_since()) + kAnswered) continue;
    verdict.fail("liveness: an initiator waits for an answer " + std::to_string(kAnswered / kSecond) +
                 " s after everything was mended");
  }
}

void World::explain_no_sync() {
  std::string text =
      "liveness: not in sync and idle " + std::to_string(kPatience / kSecond) + " s after everything was mended;";
  for (const auto& h : hosts_) {
    for (unsigned v = 0; v < scenario.volumes.size(); ++v) {
      const auto s = h->status(v);
      text += std::string(" ") + h->name() + " volume " + std::to_string(v) + ": ";
      if (!s) {
        text += h->running() ? "not attached" : "not running";
        continue;
      }
      text += std::string(state_name(s->state)) + (s->serving ? " serving" : " not serving") +
              (s->failover_limited ? " limited" : "") + " epoch " + std::to_string(s->epoch.number) + " size " +
              std::to_string(s->epoch.size / scenario.region_size) + " regions, members " +
              std::to_string(s->epoch.members.bits) + " dirty " + std::to_string(s->dirty_bytes) + " (" + s->reason +
              ");";
    }
  }
  for (const auto& initiator : initiators) {
    if (!initiator->idle()) text += " an initiator waits;";
  }
  if (!nemesis->orders_ended()) text += " an operator's order has no answer;";
  if (!lease_changer->satisfied()) text += " the lease is being changed;";
  verdict.fail(text);
}

void World::read_everything() {
  if (!kind.replicates) return;
  for (unsigned v = 0; v < scenario.volumes.size(); ++v) {
    const auto image = host(NodeSide::a).data(v).visible();
    const Moment began = history.begin_read();
    const std::vector<bool> written = history.written_blocks(v, scenario.largest_size() / kBlock);
    for (std::uint64_t block = 0; block < written.size(); ++block) {
      const Value value = read_stamp(image.subspan(block * kBlock, kBlock), block);
      if (written[block] || value != 0) history.read_returned(v, block, {&value, 1}, began, scheduler.now());
    }
  }
}

void World::compare_replicas() {
  if (!kind.replicates) return;
  for (unsigned v = 0; v < scenario.volumes.size(); ++v) {
    const auto a = host(NodeSide::a).data(v).visible();
    const auto b = host(NodeSide::b).data(v).visible();
    for (std::uint64_t block = 0; block < scenario.largest_size() / kBlock; ++block) {
      const auto at = block * kBlock;
      if (std::equal(a.begin() + at, a.begin() + at + kBlock, b.begin() + at)) continue;
      return verdict.fail("promise 5: in sync again, volume " + std::to_string(v) + " block " + std::to_string(block) +
                          " holds #" + std::to_string(read_stamp(a.subspan(at, kBlock), block)) + " on node a and #" +
                          std::to_string(read_stamp(b.subspan(at, kBlock), block)) + " on node b");
    }
  }
}

}  // namespace lockstep::simulation
