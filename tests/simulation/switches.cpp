#include "tests/simulation/switches.hpp"

#include <algorithm>

#include "replication/link/channel/channel_frames.hpp"
#include "tests/simulation/dark.hpp"

namespace lockstep::simulation {

namespace {

constexpr std::uint64_t kWithoutFence = 45'000;
constexpr std::uint64_t kWithoutSeveralPaths = 45'000;
constexpr std::uint64_t kWithoutShards = 1'000'000;
constexpr std::uint64_t kWithoutBadSectors = 2'000'000;
constexpr std::uint64_t kWithoutRevertAlone = 3'000'000;
constexpr std::uint64_t kWithoutMemory = 4'000'000;
constexpr std::uint64_t kWithoutFullPool = 5'000'000;
constexpr std::uint64_t kWithoutCached = 6'000'000;
constexpr std::uint64_t kWithoutRevertBoth = 7'000'000;
constexpr std::uint64_t kWithoutTwoOrders = 8'000'000;

std::uint64_t stream_of(const Scenario& scenario, std::string_view name) {
  return scenario.seed ^ hash_bytes(std::as_bytes(std::span(name)));
}

/// In the proportions of the real one: both nodes' operations, a node's copies, and a little for all else fit the
/// window.
void draw_narrow_link(Scenario& s) {
  if (!s.narrow_link) return;
  SimRandom random(stream_of(s, "values of narrow_link"));
  s.link_orders = {random.skewed(512, 64 * 1024), random.between(1, 6)};
  s.link_forwards = {random.skewed(512, 64 * 1024), random.between(1, 6)};
  s.link_copies = {random.skewed(512, 32 * 1024), random.between(1, 3)};
  s.link_window = s.link_orders.requests + 2 * s.link_forwards.requests + s.link_copies.requests + random.between(2, 8);
  // All that may be on the way takes a fifth of a lease at the most.
  const std::uint64_t most = s.link_orders.bytes + 2 * s.link_forwards.bytes + s.link_copies.bytes + 4 * s.region_size;
  s.link_bytes_a_second = most * 5 * kSecond / s.lease * random.between(1, 10);
}

void draw_paths(Scenario& s) {
  s.faults.paths = s.several_paths;
  if (!s.several_paths) return;
  SimRandom random(stream_of(s, "values of several_paths"));
  s.paths = random.between(1, 4);
  if (random.chance(700'000)) s.rdma_paths = random.between(1, s.paths);
  s.paths += s.rdma_paths;
  s.rdma_payload = random.skewed(0, 4096);
  s.link_version = replication::kSeveralPaths;
}

/// What seeds draw without a switch.
void leave_out_usual_faults(FaultKinds& f) {
  f.kill = f.power_cut = f.power_cut_both = f.freeze = f.shutdown = f.leave = f.network = f.session_break = false;
  f.witness = f.store_errors = f.store_hang = f.store_slow = f.store_full = f.corruption = false;
}

/// Each shard has a volume at least.
void draw_shards(Scenario& s) {
  if (!s.several_shards) return;
  SimRandom random(stream_of(s, "values of shards"));
  s.shards = 2;
  const std::uint64_t count = random.chance(700'000) ? 2 : random.between(3, 4);
  while (s.volumes.size() < count) {
    engine::DiskInfo disk = s.volumes.front();
    for (auto& byte : disk.id.bytes) byte = static_cast<std::uint8_t>(random.next());
    disk.name = "volume" + std::to_string(s.volumes.size());
    disk.serial = "SIM" + std::to_string(s.volumes.size());
    s.volumes.push_back(disk);
  }
  for (std::size_t v = 0; v < count; ++v) s.shards_of.push_back(v < 2 ? v : static_cast<unsigned>(random.below(2)));
  s.crowded = random.chance(600'000);  // what is carried out too late is seen where others use the same blocks
  s.latest_wake = random.skewed(50 * kMicrosecond, 10 * kMillisecond);
  if (s.faultless()) return;
  // What befalls one shard shows best where the other has nothing else to bear.
  const bool calm = random.chance(400'000);
  if (calm) leave_out_usual_faults(s.faults);
  s.faults.shard_link = calm || random.chance(700'000);
  s.faults.thread = random.chance(500'000);
  s.faults.misplaced = random.chance(250'000);
}

/// Time for a copy that hears nobody to begin, and to go on for longer than it lacks.
void draw_dark(Scenario& s) {
  if (!is_dark(s)) return;
  s.duration = SimRandom(stream_of(s, "values of revert_alone")).between(40, 90) * kSecond;
  s.think = 2 * s.duration * s.initiators * s.depth / s.operations;
}

/// Most caches are on from the start, and power is lost now and then.
void draw_cached(Scenario& s) {
  if (!s.cached) return;
  SimRandom random(stream_of(s, "values of cached"));
  for (engine::DiskInfo& volume : s.volumes) volume.write_cache = random.chance(800'000);
  s.volumes.front().write_cache |= !s.faults.write_cache;
  if (s.faultless()) return;
  s.faults.power_cut |= random.chance(500'000);
  s.faults.power_cut_both |= random.chance(800'000);
}

void draw_values(Scenario& s) {
  if (s.fence) s.arbiter = {engine::ArbiterKind::fence, engine::NodeSide::a, {}};
  s.changes_arbiter = s.fences_in_use || (s.changes_arbiter && !s.fence);
  draw_dark(s);
  SimRandom random(stream_of(s, "values of switches"));
  // Twice the lease is more than a lease and the margin for drift, which is what the mirror may rely on.
  s.hosts.patience = random.between(2 * s.lease, random.chance(800'000) ? 3 * s.lease : 30 * kSecond);
  // Commands all the time: what waits long enough is rare.
  if (s.hosts.impatient) s.think = 2 * s.duration * s.initiators * s.depth / s.operations;
  // What is older than this when it is tried elsewhere is not begun where it waits (initiator_sessions.cpp).
  if (s.hosts.hasty) s.hosts.patience = SimRandom(stream_of(s, "hasty values")).between(s.lease * 13 / 10, 2 * s.lease);
  s.faults.revert |= s.faults.revert_alone;
  s.faults.dies_twice &= !s.faults.revert;
  s.reordered = static_cast<std::uint32_t>(random.between(5'000, 300'000));
  s.longest_overtaken = random.skewed(s.slowest_link, std::max(s.slowest_link, s.lease / 3));
  const Nanos long_deadline = random.between(4 * kSecond, 30 * kSecond);
  if (s.long_deadline) s.store_deadline = long_deadline;
  if (s.lone_host) s.initiators = s.depth = 1;
  s.reverted = random.chance(500'000) ? engine::NodeSide::a : engine::NodeSide::b;
  draw_narrow_link(s);
  draw_shards(s);
  draw_paths(s);
  draw_cached(s);
}

}  // namespace

bool is_dark(const Scenario& scenario) {
  return scenario.faults.revert_alone && SimRandom(stream_of(scenario, "dark")).chance(150'000);
}

const std::vector<Switch>& switches() {
  static const std::vector<Switch> all{
      {"impatient", [](Scenario& s) -> bool& { return s.hosts.impatient; }, 500'000, true},
      {"hasty", [](Scenario& s) -> bool& { return s.hosts.hasty; }, 250'000, true},
      {"quick_logouts", [](Scenario& s) -> bool& { return s.hosts.quick_logouts; }, 300'000, true},
      {"quick_drops", [](Scenario& s) -> bool& { return s.hosts.quick_drops; }, 300'000, true},
      {"late_drops", [](Scenario& s) -> bool& { return s.hosts.late_drops; }, 200'000, true},
      {"long_deadline", [](Scenario& s) -> bool& { return s.long_deadline; }, 400'000, true},
      {"reorder", [](Scenario& s) -> bool& { return s.reorder; }, 400'000, true},
      {"narrow_link", [](Scenario& s) -> bool& { return s.narrow_link; }, 300'000, true},
      {"several_paths", [](Scenario& s) -> bool& { return s.several_paths; }, 300'000, true},
      {"shards", [](Scenario& s) -> bool& { return s.several_shards; }, 600'000, true},
      {"late_closes", [](Scenario& s) -> bool& { return s.late_closes; }, 400'000, true},
      {"older_programs", [](Scenario& s) -> bool& { return s.older_programs; }, 150'000, true},
      {"lone_host", [](Scenario& s) -> bool& { return s.lone_host; }, 60'000, true},
      {"bad_moments", [](Scenario& s) -> bool& { return s.bad_moments; }, 500'000, true},
      {"stall", [](Scenario& s) -> bool& { return s.faults.stall; }, 300'000, true},
      {"one_way_stall", [](Scenario& s) -> bool& { return s.faults.one_way_stall; }, 350'000, true},
      {"restart_at_once", [](Scenario& s) -> bool& { return s.faults.restart_at_once; }, 250'000, true},
      {"long_freeze", [](Scenario& s) -> bool& { return s.faults.long_freeze; }, 150'000, true},
      {"pause", [](Scenario& s) -> bool& { return s.faults.pause; }, 100'000, true},
      {"revert", [](Scenario& s) -> bool& { return s.faults.revert; }, 120'000, true},
      {"revert_alone", [](Scenario& s) -> bool& { return s.faults.revert_alone; }, 250'000, true},
      {"revert_both", [](Scenario& s) -> bool& { return s.faults.revert_both; }, 150'000, true},
      {"memory", [](Scenario& s) -> bool& { return s.faults.memory; }, 120'000, true},
      {"detach", [](Scenario& s) -> bool& { return s.faults.detach; }, 200'000, true},
      {"force", [](Scenario& s) -> bool& { return s.faults.force; }, 120'000, true},
      {"replace", [](Scenario& s) -> bool& { return s.faults.replace; }, 150'000, true},
      {"give_up", [](Scenario& s) -> bool& { return s.faults.give_up; }, 150'000, true},
      {"two_orders", [](Scenario& s) -> bool& { return s.faults.two_orders; }, 150'000, true},
      {"witness_slow", [](Scenario& s) -> bool& { return s.faults.witness_slow; }, 200'000, true},
      {"witness_set_back", [](Scenario& s) -> bool& { return s.faults.witness_set_back; }, 150'000, true},
      {"witness_emptied", [](Scenario& s) -> bool& { return s.faults.witness_emptied; }, 120'000, true},
      {"witness_overwritten", [](Scenario& s) -> bool& { return s.faults.witness_overwritten; }, 100'000, true},
      {"dies_twice", [](Scenario& s) -> bool& { return s.faults.dies_twice; }, 150'000, true},
      {"two_at_once", [](Scenario& s) -> bool& { return s.faults.two_at_once; }, 150'000, true},
      {"both_stores", [](Scenario& s) -> bool& { return s.faults.both_stores; }, 120'000, true},
      {"fence", [](Scenario& s) -> bool& { return s.fence; }, 120'000, true},
      {"other_arbiters", [](Scenario& s) -> bool& { return s.changes_arbiter; }, 120'000, true},
      {"fences_in_use", [](Scenario& s) -> bool& { return s.fences_in_use; }, 80'000, true},
      {"other_leases", [](Scenario& s) -> bool& { return s.changes_lease; }, 150'000, true},
      {"bad_sectors", [](Scenario& s) -> bool& { return s.faults.bad_sectors; }, 300'000, true},
      {"pool_full", [](Scenario& s) -> bool& { return s.faults.pool_full; }, 150'000, true},
      {"write_cache", [](Scenario& s) -> bool& { return s.faults.write_cache; }, 150'000, true},
      {"cached", [](Scenario& s) -> bool& { return s.cached; }, 200'000, true},
  };
  return all;
}

bool SwitchOrders::settle(std::string_view name, bool on) {
  if (std::ranges::find(switches(), name, &Switch::name) == switches().end()) return false;
  settled.emplace_back(name, on);
  return true;
}

std::string SwitchOrders::text() const {
  std::string text = draw_all ? " --draw-all" : "";
  for (const auto& [name, on] : settled) text += (on ? " --with " : " --without ") + name;
  return text;
}

void draw_switches(Scenario& scenario, const SwitchOrders& orders) {
  for (const Switch& s : switches()) {
    SimRandom random(stream_of(scenario, s.name));
    s.of(scenario) = random.chance(s.parts) && (s.drawn || orders.draw_all);
  }
  // The seeds that were there before these were keep what they mean.
  scenario.fence &= scenario.seed > kWithoutFence;
  scenario.fences_in_use &= scenario.seed > kWithoutFence;
  scenario.several_paths &= scenario.seed > kWithoutSeveralPaths;
  scenario.late_closes &= scenario.seed > kWithoutSeveralPaths;
  scenario.several_shards &= scenario.seed > kWithoutShards;
  scenario.faults.bad_sectors &= scenario.seed > kWithoutBadSectors;
  scenario.faults.revert_alone &= scenario.seed > kWithoutRevertAlone;
  scenario.faults.memory &= scenario.seed > kWithoutMemory;
  scenario.faults.pool_full &= scenario.seed > kWithoutFullPool;
  scenario.cached &= scenario.seed > kWithoutCached;
  scenario.faults.two_orders &= scenario.seed > kWithoutTwoOrders;
  scenario.faults.revert_both &= scenario.seed > kWithoutRevertBoth;
  settle_switches(scenario, orders);
  // What an old copy lacks is judged without what caches lose.
  FaultKinds& f = scenario.faults;
  if (scenario.cached) f.revert = f.revert_alone = f.revert_both = f.memory = false;
  // Of what else is set back, or forced, then nobody promises anything.
  if (f.revert_both) f.revert = f.revert_alone = f.memory = f.force = f.dies_twice = false;
  if (f.revert_both) f.witness_set_back = f.witness_emptied = f.witness_overwritten = false;
  // Snapshots know nothing of lost sectors, nor of the steps of management's, which would be set back, too.
  if (f.revert_both) f.bad_sectors = false;
  if (f.revert_both) scenario.changes_arbiter = scenario.fences_in_use = false;
  // Programs of before tell nothing that shows it to the one that was set back.
  scenario.older_programs &= !scenario.faults.memory;
  draw_values(scenario);
}

void settle_switches(Scenario& scenario, const SwitchOrders& orders) {
  for (const auto& [name, on] : orders.settled) std::ranges::find(switches(), name, &Switch::name)->of(scenario) = on;
}

}  // namespace lockstep::simulation
