// Faults that take several steps: what stands still and goes on, machines that are set back, and operators' orders.
#include "tests/simulation/nemesis.hpp"
#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::NodeSide;
using replication::MirrorState;

namespace {
constexpr Nanos kLongestCare = 20 * kSecond;
std::uint64_t number(NodeSide side) { return static_cast<std::uint64_t>(side); }
NodeSide side_of(std::uint64_t number) { return static_cast<NodeSide>(number); }
}  // namespace

bool Nemesis::careful() {
  if (careful_until_ != 0 && (world_.scheduler.now() > careful_until_ || world_.all_in_sync())) careful_until_ = 0;
  return careful_until_ != 0;
}

void Nemesis::commit_more(Fault fault, Host& host) {
  switch (fault) {
    case Fault::paths:
      return spoil_path(host);
    case Fault::shard_link:
      return spoil_shard_link(host);
    case Fault::thread:
      return freeze_thread(host);
    case Fault::long_freeze:
      return freeze(host, random_.skewed(kSecond, 40 * kSecond), false);
    case Fault::pause:
      return freeze(host, a_while(10 * kMillisecond, 20 * kSecond), true);
    case Fault::restart_at_once:
      return restart_at_once(host);
    case Fault::stall:
      return stall_store(host);
    case Fault::one_way_stall:
      return stall_flow();
    case Fault::revert:
      return revert(world_.host(world_.scenario.reverted));
    case Fault::detach:
      return detach(host);
    case Fault::replace:
      return replace(host);
    case Fault::force:
      return force(host);
    case Fault::give_up:
      return give_up(host);
    case Fault::write_cache:
      return write_cache();
    case Fault::dies_twice:
      return die_twice(host);
    case Fault::two_at_once:
      return fail_two(host);
    case Fault::both_stores:
      return fail_both_stores();
    case Fault::witness_slow:
      return slow_witness(host);
    case Fault::witness_set_back:
      return set_witness_back();
    case Fault::witness_emptied:
      return empty_witness();
    case Fault::witness_overwritten:
      return overwrite_witness();
    default:
      return;
  }
}

// --- What stands still -----------------------------------------------------------------------------------------------

/// Often as long as it takes until leases run out and hosts lose patience.
Nanos Nemesis::some_leases(Nanos low, Nanos high) {
  const Nanos lease = world_.scenario.lease;
  return random_.chance(500'000) ? random_.between(lease / 2, 8 * lease) : random_.skewed(low, high);
}

/// Stores have numbers: of the node, the volume, and 1 for its metadata.
SimStore& Nemesis::store(std::uint64_t of) {
  VolumeStores& stores = world_.host(side_of(of & 1)).stores()[of >> 2];
  return of & 2 ? *stores.metadata : *stores.data;
}

void Nemesis::stall_store(Host& host) {
  const std::uint64_t volume = random_.below(world_.scenario.volumes.size());
  const Nanos time = some_leases(100 * kMillisecond, 40 * kSecond);
  const std::uint64_t which = random_.below(3);  // data, metadata, or the disk that both are on
  for (std::uint64_t part = 0; part < 2; ++part) {
    if (which == 1 - part) continue;
    const std::uint64_t of = volume << 2 | part << 1 | number(host.side());
    store(of).stand_still();
    world_.scheduler.after(time, Owner::world, &Nemesis::on_go_on, this, of);
  }
}

void Nemesis::on_go_on(void* self, std::uint64_t of) { static_cast<Nemesis*>(self)->store(of).go_on(); }

/// Of one path, or of two at the same moment: nothing, or what a node sends, arrives for a while; its requests or
/// answers stand still and then come after all; its sessions break. Mostly shorter than a lease, so that the others
/// have to carry on.
void Nemesis::spoil_path(Host& host) {
  const auto& paths = world_.paths_from(host.side());
  const std::size_t path = random_.below(paths.size());
  const std::uint64_t of = path << 3 | number(host.side());
  const Nanos time = a_while(5 * kMillisecond, 4 * kSecond);
  const std::uint64_t how = random_.below(5);
  if (how == 0) {
    paths[path]->break_session();
    if (random_.chance(300'000)) paths[(path + 1) % paths.size()]->break_session();
  } else if (how <= 2) {
    world_.cut_path(path, host.side(), false);
    if (how == 2) world_.cut_path(path, engine::other(host.side()), false);
    world_.scheduler.after(time, Owner::world, &Nemesis::on_mend_path, this, of);
  } else {
    const auto flow = static_cast<SimLink::Flow>(how - 3);
    paths[path]->hold(flow, true);
    world_.scheduler.after(time, Owner::world, &Nemesis::on_mend_path, this, of);
  }
}

void Nemesis::on_mend_path(void* self, std::uint64_t of) {
  World& world = static_cast<Nemesis*>(self)->world_;
  const std::size_t path = of >> 3;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) world.cut_path(path, side, true);
  for (const auto flow : {SimLink::Flow::requests, SimLink::Flow::answers}) {
    world.paths_from(side_of(of & 1))[path]->hold(flow, false);
  }
}

void Nemesis::goes_on_everywhere() {
  for (std::uint64_t of = 0; of < 4 * world_.scenario.volumes.size(); ++of) store(of).go_on();
  for (std::uint64_t flow = 0; flow < 4 * world_.scenario.shards; ++flow) on_flow_goes_on(this, flow);
  const bool paths = world_.scenario.faults.paths || world_.scenario.faults.shard_link;
  for (std::uint64_t path = 0; path < world_.networks.size() && paths; ++path) {
    for (std::uint64_t side = 0; side < 2; ++side) on_mend_path(this, path << 3 | side);
  }
}

// --- Two faults that make one another worse --------------------------------------------------------------------------

/// What its process left in the machine's cache is there for the next one, and is gone with the power.
void Nemesis::die_twice(Host& host) {
  if (dying_ || !usable(host)) return;
  dying_ = true;
  restart_at_once(host);
  world_.scheduler.after(random_.skewed(5 * kMillisecond, 2 * kSecond), Owner::world, &Nemesis::on_cut_power, this,
                         number(host.side()));
}

void Nemesis::on_cut_power(void* self, std::uint64_t side) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  nemesis.dying_ = false;
  Host& host = nemesis.world_.host(side_of(side));
  if (nemesis.over_ || nemesis.careful() || !host.running()) return;
  nemesis.end(host, Host::End::power_cut);
}

bool Nemesis::alone(Host& host) {
  for (unsigned v = 0; v < world_.scenario.volumes.size(); ++v) {
    if (host.state(v) != MirrorState::solo) return false;
  }
  return true;
}

/// Answers to it stand still for less than a lease, so that what it sent is carried out, seen and overwritten before it
/// knows. Then its store fails.
void Nemesis::fail_two(Host& host) {
  if (!usable(host)) return;
  const std::uint64_t side = number(host.side());
  const Nanos time = random_.between(world_.scenario.lease / 4, world_.scenario.lease * 3 / 4);
  if (random_.chance(700'000)) {
    world_.way_from(host.side()).hold(SimLink::Flow::answers, true);
    world_.scheduler.after(time, Owner::world, &Nemesis::on_flow_goes_on, this, 2 | side);
  }
  world_.scheduler.after(random_.between(time / 2, time), Owner::world, &Nemesis::on_fail_store, this, side);
}

void Nemesis::on_fail_store(void* self, std::uint64_t side) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  if (nemesis.over_ || nemesis.careful()) return;
  World& world = nemesis.world_;
  world.trace.add(world.host(side_of(side)).name(), "store.fails_writes");
  for (VolumeStores& stores : world.host(side_of(side)).stores()) {
    StoreFaults faults = stores.data->faults();
    faults.write_error = 1'000'000;
    stores.data->set_faults(faults);
  }
  world.scheduler.after(nemesis.a_while(50 * kMillisecond, 4 * kSecond), Owner::world, &Nemesis::on_mend_store, self,
                        side);
}

void Nemesis::store_failed(Host& host) {
  if (over_ || !world_.scenario.faults.two_at_once || !random_.chance(500'000)) return;
  const Nanos window = world_.scenario.slowest_store + world_.scenario.slowest_link;
  world_.scheduler.after(random_.skewed(0, window), Owner::world, &Nemesis::on_second_fault, this, number(host.side()));
}

void Nemesis::on_second_fault(void* self, std::uint64_t side) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  if (nemesis.over_ || nemesis.careful()) return;
  Host& host = nemesis.world_.host(side_of(side));
  on_flow_goes_on(self, 2 | side);
  nemesis.random_.chance(400'000) ? nemesis.detach(host)
                                  : nemesis.restart_at_once(nemesis.world_.host(engine::other(host.side())));
}

/// As what both file systems refuse, or a model of disks gets wrong: each way with its own chance, so that now and then
/// one store fails first, and now and then the metadata is on the same disk.
void Nemesis::fail_both_stores() {
  const std::uint64_t which = random_.below(4);  // reads, writes, flushes, everything
  const FaultKinds& f = world_.scenario.faults;
  const bool forgetful = f.power_cut || f.power_cut_both || f.dies_twice;  // README.md: not yet kept
  const auto often = random_.chance(600'000) ? 1'000'000 : static_cast<std::uint32_t>(random_.between(50'000, 800'000));
  const bool metadata = random_.chance(150'000);
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    world_.trace.add(world_.host(side).name(), "store.fails_as_the_other", {{"which", which}, {"often", often}});
    for (VolumeStores& stores : world_.host(side).stores()) {
      for (SimStore* store : {stores.data.get(), stores.metadata.get()}) {
        if (store == stores.metadata.get() && !metadata) continue;
        StoreFaults faults = store->faults();
        if (which == 0 || which == 3) faults.read_error = often;
        if (which == 1 || which == 3) faults.write_error = often;
        if (!forgetful && which >= 2) faults.flush_error = often;
        store->set_faults(faults);
      }
    }
    world_.scheduler.after(a_while(50 * kMillisecond, 4 * kSecond), Owner::world, &Nemesis::on_mend_store, this,
                           number(side));
  }
}

// --- A machine that is set back --------------------------------------------------------------------------------------

/// The witness has heard of a later generation of each of its replicas.
bool Nemesis::witness_knows_better(const Host& host) {
  const Scenario& s = world_.scenario;
  if (s.arbiter.kind != engine::ArbiterKind::witness || !host.has_snapshot()) return false;
  for (unsigned v = 0; v < s.volumes.size(); ++v) {
    const auto record = world_.witness.view(s.volumes[v].id).record;
    if (!record || record->generation_of(host.side()) <= host.generation_in_snapshot(v)) return false;
  }
  return true;
}

/// By its own record some replica of its is no member: its partner's is the only copy of all that was acknowledged.
bool Nemesis::has_left(const Host& host) {
  for (unsigned v = 0; v < world_.scenario.volumes.size(); ++v) {
    const auto record = host.recorded(v);
    if (record && !record->members.contains(host.side())) return true;
  }
  return false;
}

/// Only while its partner knows better, or the witness: alone, nothing could tell that its disks are old. Nor could
/// anything where its generation is still the same.
void Nemesis::revert(Host& host) {
  Host& partner = world_.host(engine::other(host.side()));
  bool shared = true;
  bool known_better = usable(partner) && world_.is_whole();
  for (unsigned v = 0; v < world_.scenario.volumes.size(); ++v) {
    const auto own = host.status(v);
    shared &= own && own->epoch.members.contains(partner.side());
    const auto theirs = partner.status(v);  // none while it is detached there
    const MirrorState state = theirs ? theirs->state : MirrorState::starting;
    known_better &= state == MirrorState::in_sync || state == MirrorState::solo || state == MirrorState::syncing_source;
    const auto learnt = partner.program() != nullptr ? partner.program()->learnt(v) : std::nullopt;
    known_better &= host.has_snapshot() && learnt && learnt->partner_generation > host.generation_in_snapshot(v);
  }
  if (!host.has_snapshot() || random_.chance(400'000)) {
    if (shared && usable(host)) host.take_snapshot();
    return;
  }
  // What it has acknowledged alone, or may acknowledge, is nowhere else: with it the volume waits for an operator.
  const bool only_copy = !shared || (!known_better && has_left(partner));
  const bool force_asks_nobody = world_.scenario.faults.force;
  const bool told = !force_asks_nobody && !partner.running() && witness_knows_better(host);
  if (only_copy || (!known_better && !told)) return;
  if (!known_better) world_.trace.add(host.name(), "node.set_back_alone");
  careful_until_ = world_.scheduler.now() + kLongestCare;
  host.end(Host::End::power_cut);
  host.set_back();
  world_.scheduler.after(a_while(5 * kMillisecond, 3 * kSecond), Owner::world, &Nemesis::on_boot, this,
                         number(host.side()));
}

// --- A witness that is slow, or forgets ------------------------------------------------------------------------------

void Nemesis::slow_witness(Host& host) {
  world_.trace.add(host.name(), "witness.slow");
  host.slow_witness().set_slowness(random_.between(500 * kMillisecond, 5 * kSecond));
  world_.scheduler.after(a_while(500 * kMillisecond, 8 * kSecond), Owner::world, &Nemesis::on_witness_fast, this,
                         number(host.side()));
}

void Nemesis::on_witness_fast(void* self, std::uint64_t side) {
  static_cast<Nemesis*>(self)->world_.host(side_of(side)).slow_witness().set_slowness(0);
}

/// Not beside a machine that is set back: of two that forget nobody promises anything. Nor what only one node has seen
/// there: if that one is away, the other can't know that something is missing.
void Nemesis::set_witness_back() {
  if (world_.scenario.faults.revert) return;
  if (!witness_then_ || random_.chance(400'000)) {
    world_.trace.add('-', "witness.snapshot");
    witness_then_ = world_.witness.snapshot();
    return;
  }
  if (!world_.witness.all_seen()) return;
  world_.trace.add('-', "witness.set_back");
  world_.witness.restore(*witness_then_);
}

void Nemesis::empty_witness() {
  if (world_.scenario.faults.revert) return;
  const bool same_cluster = random_.chance(500'000);
  world_.trace.add('-', "witness.emptied", {{"same_cluster", same_cluster}});
  same_cluster ? world_.witness.lose_disk() : world_.witness.empty();
}

/// At any moment: whoever can write to it waits for the worst one.
void Nemesis::overwrite_witness() {
  if (world_.scenario.faults.revert) return;
  const bool anew = random_.chance(600'000);
  world_.trace.add('-', "witness.overwritten", {{"anew", anew}});
  anew ? world_.witness.make_anew(random_) : world_.witness.overwrite();
}

// --- Operators' orders -----------------------------------------------------------------------------------------------

/// Once in each life of a process; nothing where one is out of service still.
std::optional<unsigned> Nemesis::volume_to_detach(Host& host) {
  const std::uint64_t side = number(host.side());
  if (!usable(host) || detached_in_[side] == host.life()) return std::nullopt;
  for (unsigned v = 0; v < world_.scenario.volumes.size(); ++v) {
    if (!host.status(v)) return std::nullopt;
  }
  return static_cast<unsigned>(random_.below(world_.scenario.volumes.size()));
}

void Nemesis::detach(Host& host) {
  const auto volume = volume_to_detach(host);
  if (!volume) return;
  detached_in_[number(host.side())] = host.life();
  world_.trace.add(host.name(), "operator.detach", {{"volume", *volume}});
  host.program()->attach_again(*volume);
}

/// As management does it: not while the other is not seen to go on alone.
void Nemesis::replace(Host& host) {
  const auto volume = volume_to_detach(host);
  if (!volume || !host.is_only_a_target(*volume)) return;
  detached_in_[number(host.side())] = host.life();
  host.replace_copy(*volume);
}

/// The partner is off or cut off. When it goes on none the less, the operator was wrong, and one of the two gives up.
/// Perhaps the copy that he forces is one of an earlier day: then hosts lose what came since, by his word.
void Nemesis::force(Host& host) {
  if (!usable(host) || !world_.is_whole()) return;
  Host& partner = world_.host(engine::other(host.side()));
  careful_until_ = world_.scheduler.now() + kLongestCare;
  world_.checkers->expect_split();
  const Nanos time = random_.between(kSecond, 8 * kSecond);
  if (random_.chance(300'000)) {
    for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
      world_.cut(side, false);
      world_.scheduler.after(time, Owner::world, &Nemesis::on_mend_network, this, number(side));
    }
  } else {
    partner.end(world_.scenario.faults.write_cache ? Host::End::killed : Host::End::power_cut);
    world_.scheduler.after(time, Owner::world, &Nemesis::on_boot, this, number(partner.side()));
    if (may_be_old(host) && random_.chance(500'000)) return force_an_old_copy(host, time);
  }
  world_.scheduler.after(random_.skewed(kMillisecond, time), Owner::world, &Nemesis::on_force, this,
                         number(host.side()));
}

/// The partner has a copy of all that was acknowledged, too, and no arbiter lets an old one go on unasked.
bool Nemesis::may_be_old(const Host& host) {
  const Scenario& s = world_.scenario;
  const Host& partner = world_.host(engine::other(host.side()));
  if (!host.has_snapshot() || host.side() != s.reverted || has_left(partner) || s.changes_arbiter) return false;
  if (s.arbiter.kind == engine::ArbiterKind::witness && !witness_knows_better(host)) return false;
  if (s.arbiter.kind == engine::ArbiterKind::preferred && s.arbiter.preferred == host.side()) return false;
  for (unsigned v = 0; v < world_.scenario.volumes.size(); ++v) {
    const auto record = host.recorded(v);
    if (!record || !record->members.is_both()) return false;
  }
  return true;
}

void Nemesis::force_an_old_copy(Host& host, Nanos before) {
  world_.trace.add(host.name(), "operator.restores");
  world_.checkers->expect_loss();
  restored_ = &host;
  host.end(Host::End::power_cut);
  host.set_back();
  host.boot();
  const std::uint64_t accepts = random_.chance(500'000) ? 2 : 0;
  world_.scheduler.after(random_.between(before / 2, before), Owner::world, &Nemesis::on_force, this,
                         number(host.side()) | accepts);
}

/// `how`: the side, and 2 for who accepts what the copy lacks.
void Nemesis::on_force(void* self, std::uint64_t how) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  World& world = nemesis.world_;
  Host& host = world.host(side_of(how & 1));
  if (!nemesis.usable(host)) return;
  for (unsigned v = 0; v < world.scenario.volumes.size(); ++v) {
    if (!host.status(v)) continue;
    world.trace.add(host.name(), "operator.force", {{"volume", v}});
    host.program()->force_solo(v, (how & 2) != 0, [&world, name = host.name()](engine::Result<void> done) {
      world.trace.add(name, "operator.forced", {{"done", done.has_value()}});
      if (!done) world.trace.note(name, done.error().message);
    });
  }
}

/// At any moment: without a split there is nothing to give up, and it is refused.
void Nemesis::give_up(Host& host) {
  const auto volume = static_cast<unsigned>(random_.below(world_.scenario.volumes.size()));
  if (!usable(host) || !host.status(volume)) return;
  world_.trace.add(host.name(), "operator.give_up", {{"volume", volume}});
  host.program()->give_up(volume, [this, name = host.name()](engine::Result<void> done) {
    world_.trace.add(name, "operator.gave_up", {{"done", done.has_value()}});
    if (done && !world_.checkers->split()) {
      world_.verdict.fail(std::string("promise 6: node ") + name +
                          " gives up its changes though the two replicas never parted ways");
    }
  });
}

/// It may be all that there is: of the only member nobody has more, and of two nobody may know what is missing.
void Nemesis::go_on_with_an_old_copy(Host& host, unsigned volume) {
  if (!usable(host)) return;
  world_.trace.add(host.name(), "operator.force", {{"volume", volume}});
  host.program()->force_solo(volume, true, [](engine::Result<void>) {});
}

void Nemesis::give_up_a_split(Host& host, unsigned volume) {
  // Always the same one of the two, unless it is refused, and one order at a time in each of its lives.
  if (number(host.side()) != (world_.scenario.seed + refused_) % 2 || !usable(host) || giving_up_in_ == host.life())
    return;
  giving_up_in_ = host.life();
  world_.trace.add(host.name(), "operator.give_up", {{"volume", volume}});
  host.program()->give_up(volume, [this, &host](engine::Result<void> done) {
    giving_up_in_ = 0;
    if (!done && restored_) ++refused_;  // the other's copy may not serve alone: it is that one's to give up
    world_.trace.add(host.name(), "operator.gave_up", {{"done", done.has_value()}});
  });
}

/// Only in worlds without power cuts: what they lose from a cache nobody has promised to keep.
void Nemesis::write_cache() {
  const FaultKinds& f = world_.scenario.faults;
  if (f.power_cut || f.power_cut_both || f.revert || f.dies_twice || world_.scenario.fence || cached_) return;
  cached_ = true;
  const std::uint64_t volume = random_.below(world_.scenario.volumes.size());
  world_.trace.add('-', "operator.cache_on", {{"volume", volume}});
  world_.checkers->cache_switched(static_cast<unsigned>(volume), true);
  for (std::uint64_t side = 0; side < 2; ++side) {
    world_.scheduler.after(random_.skewed(0, kSecond), Owner::world, &Nemesis::on_switch_cache, this,
                           volume << 2 | 2 | side);
  }
  world_.scheduler.after(a_while(1100 * kMillisecond, 4 * kSecond), Owner::world, &Nemesis::on_cache_off, this, volume);
}

void Nemesis::on_cache_off(void* self, std::uint64_t volume) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  World& world = nemesis.world_;
  if (world.host(NodeSide::a).frozen() || world.host(NodeSide::b).frozen()) {
    return world.scheduler.after(100 * kMillisecond, Owner::world, &Nemesis::on_cache_off, self, volume);
  }
  for (std::uint64_t side = 0; side < 2; ++side) on_switch_cache(self, volume << 2 | side);
  world.trace.add('-', "operator.cache_off", {{"volume", volume}});
  world.checkers->cache_switched(static_cast<unsigned>(volume), false);
  nemesis.cached_ = false;
}

/// A process that starts has it off.
void Nemesis::on_switch_cache(void* self, std::uint64_t order) {
  Host& host = static_cast<Nemesis*>(self)->world_.host(side_of(order & 1));
  const auto volume = static_cast<unsigned>(order >> 2);
  if (host.running() && !host.frozen()) host.program()->set_write_cache(volume, (order & 2) != 0);
}

}  // namespace lockstep::simulation
