#include "tests/simulation/scenario.hpp"

#include "tests/simulation/switches.hpp"

namespace lockstep::simulation {

namespace {

FaultKinds draw_faults(SimRandom& random) {
  FaultKinds f;
  if (random.chance(30'000)) return f;  // now and then, a world without faults
  const std::uint32_t likely = random.chance(500'000) ? 250'000 : 500'000;
  f.kill = random.chance(likely);
  f.power_cut = random.chance(likely);
  f.power_cut_both = random.chance(likely);
  f.freeze = random.chance(likely);
  f.shutdown = random.chance(likely / 2);
  f.leave = random.chance(likely / 2);
  f.network = random.chance(likely);
  f.session_break = random.chance(likely);
  f.witness = random.chance(likely);
  f.store_errors = random.chance(likely / 2);
  f.store_hang = random.chance(likely / 3);
  f.store_slow = random.chance(likely / 2);
  f.store_full = random.chance(likely / 3);
  f.corruption = random.chance(likely / 2);
  return f;
}

engine::Uuid draw_uuid(SimRandom& random) {
  engine::Uuid id;
  for (auto& byte : id.bytes) byte = static_cast<std::uint8_t>(random.next());
  return id;
}

void draw_volumes(Scenario& s, SimRandom& random) {
  s.region_size = random.chance(800'000) ? 4096 : 8192;
  s.regions = random.between(32, s.region_size == 4096 ? 160 : 64);
  const unsigned count = random.chance(200'000) ? 2 : 1;
  for (unsigned i = 0; i < count; ++i) {
    engine::DiskInfo disk;
    disk.id = draw_uuid(random);
    disk.name = "volume" + std::to_string(i);
    disk.serial = "SIM" + std::to_string(i);
    disk.size = s.volume_size();
    disk.physical_block_size = disk.block_size;  // as the stores' sectors are
    s.volumes.push_back(disk);
  }
}

}  // namespace

Scenario draw_scenario(std::uint64_t seed, SimRandom& random) {
  Scenario s;
  s.seed = seed;
  s.pair = draw_uuid(random);
  s.first_epoch = draw_uuid(random);
  s.born_dirty = random.chance(100'000);
  draw_volumes(s, random);
  s.arbiter.kind = random.chance(800'000) ? engine::ArbiterKind::witness : engine::ArbiterKind::preferred;
  s.arbiter.preferred = random.chance(500'000) ? engine::NodeSide::a : engine::NodeSide::b;
  if (s.arbiter.kind == engine::ArbiterKind::witness) s.arbiter.address = "http://192.0.2.1:2379";
  s.first_sequencer = random.chance(500'000) ? engine::NodeSide::a : engine::NodeSide::b;

  s.lease = random.between(300, 1500) * kMillisecond;
  s.heartbeat = s.lease / random.between(4, 8);
  s.clean_after = random.between(200, 3000) * kMillisecond;
  s.store_deadline = random.between(1500, 4000) * kMillisecond;
  s.dirty_bound = random.chance(500'000) ? s.volume_size() : random.between(2, 8) * s.region_size;
  // A slow resync leaves time for things to happen during it.
  if (random.chance(350'000)) s.resync_ceiling = random.skewed(30'000, 2'000'000);
  for (auto& rate : s.clock_rate) {
    // Two clocks never differ by more than 10 %, which is what the leases' margin is made for, with some to spare.
    rate = random.chance(300'000) ? (random.chance(500'000) ? 952'000 : 1'047'000)
                                  : static_cast<std::uint32_t>(random.between(952'000, 1'047'000));
  }
  s.initiators = static_cast<unsigned>(random.between(2, 4));
  s.depth = static_cast<unsigned>(random.between(1, 4));
  s.operations = static_cast<unsigned>(random.between(100, 450));
  s.duration = random.between(2, 14) * kSecond;
  const Nanos share = s.duration * s.initiators * s.depth / s.operations;
  s.think = random.chance(300'000) ? 2 * kMillisecond : 2 * share;
  s.longest_quiet = random.between(200, 4000) * kMillisecond;
  s.slowest_store = random.skewed(200 * kMicrosecond, 20 * kMillisecond);
  s.slowest_link = random.skewed(100 * kMicrosecond, 20 * kMillisecond);
  s.faults = draw_faults(random);
  // Of a stream of its own: the other draws of a seed stay what they were.
  s.reservations = SimRandom(seed ^ 0x7265736572766564).chance(350'000);
  if (SimRandom growth(seed ^ 0x67726f7774680a); growth.chance(150'000)) {
    s.grown_regions = s.regions + growth.between(1, s.regions);
  }
  return s;
}

std::string describe(const Scenario& s) {
  std::string text = std::to_string(s.volumes.size()) + " volume(s) of " + std::to_string(s.regions) + " regions of " +
                     std::to_string(s.region_size) + ", " +
                     (s.arbiter.kind == engine::ArbiterKind::witness ? "witness"
                      : s.arbiter.kind == engine::ArbiterKind::fence
                          ? "fence"
                          : (s.arbiter.preferred == engine::NodeSide::a ? "preferred a" : "preferred b")) +
                     ", lease " + std::to_string(s.lease / kMillisecond) + " ms, " + std::to_string(s.initiators) +
                     "x" + std::to_string(s.depth) + " initiators, " + std::to_string(s.operations) + " operations, " +
                     std::to_string(s.duration / kSecond) + " s" + (s.reservations ? ", reservations" : "") +
                     (s.grown_regions != 0 ? ", grows to " + std::to_string(s.grown_regions) + " regions" : "") +
                     "; faults:";
  const FaultKinds& f = s.faults;
  const std::pair<bool, const char*> names[] = {{f.kill, "kill"},
                                                {f.power_cut, "power_cut"},
                                                {f.power_cut_both, "power_cut_both"},
                                                {f.freeze, "freeze"},
                                                {f.shutdown, "shutdown"},
                                                {f.leave, "leave"},
                                                {f.network, "network"},
                                                {f.session_break, "session_break"},
                                                {f.paths, "paths"},
                                                {f.shard_link, "shard_link"},
                                                {f.thread, "thread"},
                                                {f.misplaced, "misplaced"},
                                                {f.witness, "witness"},
                                                {f.store_errors, "store_errors"},
                                                {f.store_hang, "store_hang"},
                                                {f.store_slow, "store_slow"},
                                                {f.store_full, "store_full"},
                                                {f.corruption, "corruption"}};
  for (const auto& [on, name] : names) {
    if (on) text += std::string(" ") + name;
  }
  Scenario known = s;
  for (const Switch& one : switches()) {
    if (one.of(known)) text += " " + std::string(one.name);
  }
  if (s.rdma_paths != 0) text += ", " + std::to_string(s.rdma_paths) + " of " + std::to_string(s.paths) + " over RDMA";
  if (s.hosts.impatient) text += ", patience " + std::to_string(s.hosts.patience / kMillisecond) + " ms";
  return text;
}

}  // namespace lockstep::simulation
