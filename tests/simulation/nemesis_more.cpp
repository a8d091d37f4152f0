// Faults that take several steps: what stands still and goes on, machines and witnesses that are set back.
#include "tests/simulation/dark.hpp"
#include "tests/simulation/nemesis.hpp"
#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::NodeSide;
using replication::MirrorState;

bool Nemesis::careful() {
  if (careful_until_ != 0 && (world_.scheduler.now() > careful_until_ || world_.all_in_sync())) careful_until_ = 0;
  return careful_until_ != 0;
}

/// A copy that was set back is made equal as a whole by any process, from any process.
void Nemesis::strike_in_care() {
  const FaultKinds& f = world_.scenario.faults;
  if (!restarts_in_care_ || !in_care_.chance(250'000)) return;
  Host& host = world_.host(in_care_.chance(500'000) ? NodeSide::a : NodeSide::b);
  const Nanos time = in_care_.skewed(5 * kMillisecond, 4 * kSecond);
  switch (in_care_.below(3)) {
    case 0:
      if (!f.kill || !host.running()) return;
      host.end(Host::End::killed);
      return world_.scheduler.after(time, Owner::world, &Nemesis::on_boot, this, number(host.side()));
    case 1:
      return f.freeze ? freeze(host, time, false) : void();
    default:
      if (f.session_break) some_way_from(host.side()).break_session();
  }
}

/// Without its partner no arbiter lets it go on unasked: not even one that hears of generations once a minute.
bool Nemesis::outlives_restarts(const Host& old_copy) {
  const Scenario& s = world_.scenario;
  if (s.changes_arbiter || s.faults.revert_alone || s.faults.force) return false;
  return s.arbiter.kind != engine::ArbiterKind::witness || witness_knows_better(old_copy);
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
    case Fault::revert_both:
      return revert_both();
    case Fault::memory:
      return revert_with_memory(world_.host(world_.scenario.reverted));
    case Fault::detach:
      return detach(host);
    case Fault::replace:
      return replace(host);
    case Fault::force:
      return force(host);
    case Fault::give_up:
      return give_up(host);
    case Fault::two_orders:
      return two_orders(host);
    case Fault::write_cache:
      return write_cache();
    case Fault::dies_twice:
      return die_twice(host);
    case Fault::two_at_once:
      return fail_two(host);
    case Fault::both_stores:
      return fail_both_stores();
    case Fault::pool_full:
      return fill_pools(host);
    case Fault::bad_sectors:
      return lose_sectors(host);
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
  const bool forgetful =
      f.power_cut || f.power_cut_both || f.memory || f.dies_twice || world_.scenario.cached;  // README.md: not yet kept
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

/// The pools that thin devices share. Writes hang at first where nobody has said that they are to fail at once.
void Nemesis::fill_pools(Host& host) {
  const bool waits = random_.chance(400'000);
  const auto often = random_.chance(600'000) ? 1'000'000 : static_cast<std::uint32_t>(random_.between(20'000, 500'000));
  for (Host* of : {&host, &world_.host(engine::other(host.side()))}) {
    if (of != &host && random_.chance(300'000)) continue;
    world_.trace.add(of->name(), "store.pool_is_full", {{"often", often}, {"waits", waits}});
    for (VolumeStores& stores : of->stores()) {
      StoreFaults faults = stores.data->faults();
      faults.pool_full = often;
      if (waits) faults.hang = often;
      stores.data->set_faults(faults);
    }
    world_.scheduler.after(waits ? some_leases(kSecond, 20 * kSecond) : a_while(50 * kMillisecond, 4 * kSecond),
                           Owner::world, &Nemesis::on_mend_store, this, number(of->side()));
  }
}

/// Often just as both nodes end: what they have to make equal then is where it was written last.
void Nemesis::lose_sectors(Host& host) {
  world_.bad_sectors->lose_some(host);
  const FaultKinds& f = world_.scenario.faults;
  if (!(f.power_cut_both || f.kill) || !random_.chance(500'000)) return;
  const auto how = f.power_cut_both ? Host::End::power_cut : Host::End::killed;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) end(world_.host(side), how);
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
    // As the only member it acknowledges what is nowhere else: it is set back to that when it is no more.
    if ((world_.scenario.faults.revert_alone ? alone(host) : shared) && usable(host)) host.take_snapshot();
    return;
  }
  // What it has acknowledged alone, or may acknowledge, is nowhere else: with it the volume waits for an operator.
  const bool only_copy = !shared || (!known_better && has_left(partner));
  const bool force_asks_nobody = world_.scenario.faults.force;
  const bool asks_witness = host.witness().reachable() && !host.slow_witness().slow();
  const bool told = !force_asks_nobody && !partner.running() && witness_knows_better(host) && asks_witness;
  if (only_copy || (!known_better && !told)) return;
  restarts_in_care_ = known_better && outlives_restarts(host);
  if (!known_better) world_.trace.add(host.name(), "node.set_back_alone");
  careful_until_ = world_.scheduler.now() + kLongestCare;
  host.end(Host::End::power_cut);
  host.set_back();
  const Nanos until_boot = a_while(5 * kMillisecond, 3 * kSecond);
  world_.scheduler.after(until_boot, Owner::world, &Nemesis::on_boot, this, number(host.side()));
  if (!world_.scenario.faults.revert_alone || !random_.chance(700'000)) return;
  const Nanos soon = random_.between(0, world_.scenario.lease / 3);
  if (!is_dark(world_.scenario)) return hears_nobody_for(host, soon);
  const Nanos late = random_.between(15 * kSecond, 60 * kSecond);
  world_.checkers->expect_loss();
  careful_until_ += late;
  hears_nobody_for(host, late);
}

/// Its network is up later than its process, whoever starts that, by less than a node waits for its partner's call.
void Nemesis::hears_nobody_for(Host& host, Nanos time) {
  deaf_ = time;
  host.witness().set_reachable(false);
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) world_.cut(side, false);
  on_hear_again(this, number(host.side()));
}

void Nemesis::on_hear_again(void* self, std::uint64_t side) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  World& world = nemesis.world_;
  const Host& host = world.host(side_of(side));
  if (!host.running() || world.scheduler.now() < host.booted_at() + nemesis.deaf_)
    return world.scheduler.after(world.scenario.lease / 20, Owner::world, &Nemesis::on_hear_again, self, side);
  on_mend_witness(self, side);
  for (const NodeSide each : {NodeSide::a, NodeSide::b}) on_mend_network(self, number(each));
}

/// While its partner is up and knows better, as above.
void Nemesis::revert_with_memory(Host& host) {
  Host& partner = world_.host(engine::other(host.side()));
  if (!usable(host) || !usable(partner) || !host.has_memory() || !world_.is_whole()) return;
  for (unsigned v = 0; v < world_.scenario.volumes.size(); ++v) {
    const auto own = host.status(v), theirs = partner.status(v);
    if (!own || !theirs || !own->epoch.members.contains(partner.side())) return;
    const MirrorState state = theirs->state;
    if (state != MirrorState::in_sync && state != MirrorState::solo && state != MirrorState::syncing_source) return;
    const auto learnt = partner.program()->learnt(v);
    if (!learnt || learnt->partner_generation <= host.generation_in_memory(v)) return;
  }
  careful_until_ = world_.scheduler.now() + kLongestCare;
  restarts_in_care_ = false;
  host.set_back_with_memory();
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

}  // namespace lockstep::simulation
