#include "tests/simulation/nemesis.hpp"

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::NodeSide;

namespace {
/// The node waits ten seconds for its partner, by a clock that may run slow; then it takes a while to come back.
constexpr Nanos kLongestLeave = 14 * kSecond;
constexpr Nanos kComesBack = 15 * kSecond;  ///< within which a store is trusted again that may be

}  // namespace

Nemesis::Nemesis(World& world, SimRandom random)
    : world_(world), random_(random), in_care_(world.scenario.seed ^ 0x696e2063617265) {
  const FaultKinds& f = world.scenario.faults;
  const std::pair<bool, Fault> kinds[] = {{f.kill, Fault::kill},
                                          {f.power_cut, Fault::power_cut},
                                          {f.power_cut_both, Fault::power_cut_both},
                                          {f.freeze, Fault::freeze},
                                          {f.shutdown, Fault::shutdown},
                                          {f.leave, Fault::leave},
                                          {f.network, Fault::network},
                                          {f.session_break, Fault::session_break},
                                          {f.paths, Fault::paths},
                                          {f.paths, Fault::paths},
                                          {f.shard_link, Fault::shard_link},
                                          {f.shard_link, Fault::shard_link},
                                          {f.thread, Fault::thread},
                                          {f.witness, Fault::witness},
                                          {f.store_errors, Fault::store_errors},
                                          {f.store_hang, Fault::store_hang},
                                          {f.store_slow, Fault::store_slow},
                                          {f.store_full, Fault::store_full},
                                          {f.stall, Fault::stall},
                                          {f.one_way_stall, Fault::one_way_stall},
                                          {f.restart_at_once, Fault::restart_at_once},
                                          {f.long_freeze, Fault::long_freeze},
                                          {f.pause, Fault::pause},
                                          {f.revert, Fault::revert},
                                          {f.revert_both, Fault::revert_both},
                                          {f.revert_both, Fault::revert_both},
                                          {f.memory, Fault::memory},
                                          {f.detach, Fault::detach},
                                          {f.replace, Fault::replace},
                                          {f.force, Fault::force},
                                          {f.give_up, Fault::give_up},
                                          {f.two_orders, Fault::two_orders},
                                          {f.two_orders, Fault::two_orders},
                                          {f.write_cache, Fault::write_cache},
                                          {f.dies_twice, Fault::dies_twice},
                                          {f.two_at_once, Fault::two_at_once},
                                          {f.both_stores, Fault::both_stores},
                                          {f.pool_full, Fault::pool_full},
                                          {f.bad_sectors, Fault::bad_sectors},
                                          {f.witness_slow, Fault::witness_slow},
                                          {f.witness_set_back, Fault::witness_set_back},
                                          {f.witness_emptied, Fault::witness_emptied},
                                          {f.witness_overwritten, Fault::witness_overwritten}};
  for (const auto& [known, fault] : kinds) {
    if (known) known_.push_back(fault);
  }
}

void Nemesis::start() {
  if (!known_.empty())
    world_.scheduler.after(random_.below(world_.scenario.longest_quiet), Owner::world, &Nemesis::on_act, this);
}

void Nemesis::on_act(void* self, std::uint64_t) { static_cast<Nemesis*>(self)->act(); }

void Nemesis::act() {
  if (over_) return;
  careful() ? strike_in_care() : commit(known_[random_.below(known_.size())]);
  world_.scheduler.after(random_.between(20 * kMillisecond, world_.scenario.longest_quiet), Owner::world,
                         &Nemesis::on_act, this);
}

void Nemesis::write_was_sent(Host& host) {
  const FaultKinds& f = world_.scenario.faults;
  if (over_ || careful_until_ != 0) return;
  if (f.dies_twice && !dying_ && alone(host) && random_.chance(200'000)) return strike(Fault::dies_twice, host);
  if (!random_.chance(6'000)) return;
  std::vector<Fault> fitting;
  if (f.kill) fitting.push_back(Fault::kill);
  if (f.power_cut) fitting.push_back(Fault::power_cut);
  if (f.session_break) fitting.push_back(Fault::session_break);
  if (f.stall) fitting.push_back(Fault::stall);
  if (f.one_way_stall) fitting.push_back(Fault::one_way_stall);
  if (f.restart_at_once) fitting.push_back(Fault::restart_at_once);
  if (fitting.empty()) return;
  strike(fitting[random_.below(fitting.size())], host);
}

/// While the write is being carried out.
void Nemesis::strike(Fault fault, Host& host) {
  const Nanos window = 2 * (world_.scenario.slowest_store + world_.scenario.slowest_link);
  world_.scheduler.after(random_.skewed(0, window), Owner::world, &Nemesis::on_strike, this,
                         static_cast<std::uint64_t>(fault) << 1 | number(host.side()));
}

void Nemesis::on_strike(void* self, std::uint64_t argument) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  if (nemesis.over_ || nemesis.careful()) return;
  Host& host = nemesis.world_.host(side_of(argument & 1));
  const auto fault = static_cast<Fault>(argument >> 1);
  if (fault == Fault::session_break) {
    return nemesis.some_way_from(nemesis.random_.chance(500'000) ? host.side() : engine::other(host.side()))
        .break_session();
  }
  if (fault == Fault::dies_twice) return nemesis.die_twice(host);
  if (fault == Fault::stall || fault == Fault::one_way_stall) return nemesis.commit(fault);
  if (fault == Fault::restart_at_once) return nemesis.restart_at_once(host);
  nemesis.end(host, fault == Fault::kill ? Host::End::killed : Host::End::power_cut);
}

void Nemesis::unacknowledged_was_read() {
  if (over_ || !world_.scenario.faults.power_cut_both || !random_.chance(50'000)) return;
  world_.scheduler.after(0, Owner::world, &Nemesis::on_strike_both, this);
}

void Nemesis::state_changed() {
  if (!over_ && careful_until_ != 0 && restarts_in_care_) {
    const auto strikes = [](void* self, std::uint64_t) {
      auto& nemesis = *static_cast<Nemesis*>(self);
      if (!nemesis.over_ && nemesis.careful()) nemesis.strike_in_care();
    };
    world_.scheduler.after(in_care_.skewed(0, 300 * kMillisecond), Owner::world, strikes, this);
  }
  if (over_ || !world_.scenario.bad_moments || known_.empty() || !random_.chance(120'000)) return;
  const Nanos window = world_.scenario.slowest_store + world_.scenario.slowest_link;
  world_.scheduler.after(random_.skewed(0, window), Owner::world, &Nemesis::on_strike_any, this);
}

void Nemesis::on_strike_any(void* self, std::uint64_t) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  if (!nemesis.over_ && !nemesis.careful())
    nemesis.commit(nemesis.known_[nemesis.random_.below(nemesis.known_.size())]);
}

void Nemesis::on_strike_both(void* self, std::uint64_t) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  if (!nemesis.over_ && !nemesis.careful()) nemesis.commit(Fault::power_cut_both);
}

Host& Nemesis::either() { return world_.host(random_.chance(500'000) ? NodeSide::a : NodeSide::b); }

void Nemesis::commit(Fault fault) {
  Host& host = either();
  switch (fault) {
    case Fault::kill:
      return end(host, Host::End::killed);
    case Fault::power_cut:
      return end(host, Host::End::power_cut);
    case Fault::power_cut_both:
      end(world_.host(NodeSide::a), Host::End::power_cut);
      return end(world_.host(NodeSide::b), Host::End::power_cut);
    case Fault::freeze:
      if (!host.running() || host.frozen()) return;
      return freeze(host, a_while(10 * kMillisecond, 12 * kSecond), false);
    case Fault::shutdown:
      if (!host.running() || host.frozen()) return;
      host.shut_down();
      if (random_.chance(200'000)) {
        Host& partner = world_.host(engine::other(host.side()));
        if (!partner.frozen()) partner.shut_down();
        world_.scheduler.after(a_while(kSecond, 12 * kSecond), Owner::world, &Nemesis::on_boot, this,
                               number(partner.side()));
      }
      return world_.scheduler.after(a_while(kSecond, 12 * kSecond), Owner::world, &Nemesis::on_boot, this,
                                    number(host.side()));
    case Fault::leave:
      if (!host.running() || host.frozen() || host.stopping()) return;
      world_.trace.add(host.name(), "operator.leave");
      ordered_until_ = world_.scheduler.now() + kLongestLeave;
      for (unsigned v = 0; v < world_.scenario.volumes.size(); ++v) host.program()->leave(v);
      return world_.scheduler.after(a_while(500 * kMillisecond, 6 * kSecond), Owner::world,
                                    &Nemesis::on_restart_after_leave, this, number(host.side()));
    case Fault::network:
      world_.cut(host.side(), false);
      world_.scheduler.after(a_while(20 * kMillisecond, 8 * kSecond), Owner::world, &Nemesis::on_mend_network, this,
                             number(host.side()));
      if (random_.chance(500'000)) return;
      world_.cut(engine::other(host.side()), false);
      return world_.scheduler.after(a_while(20 * kMillisecond, 8 * kSecond), Owner::world, &Nemesis::on_mend_network,
                                    this, number(engine::other(host.side())));
    case Fault::session_break:
      some_way_from(host.side()).break_session();
      if (random_.chance(400'000)) some_way_from(engine::other(host.side())).break_session();
      return;
    case Fault::witness:
      for (Host* of : {&host, &world_.host(engine::other(host.side()))}) {
        if (of != &host && random_.chance(500'000)) continue;
        world_.trace.add(of->name(), "witness.unreachable");
        of->witness().set_reachable(false);
        world_.scheduler.after(a_while(50 * kMillisecond, 8 * kSecond), Owner::world, &Nemesis::on_mend_witness, this,
                               number(of->side()));
      }
      return;
    case Fault::store_errors:
    case Fault::store_hang:
    case Fault::store_slow:
    case Fault::store_full:
      return spoil_store(fault, host);
    default:
      return commit_more(fault, host);
  }
}

void Nemesis::freeze(Host& host, Nanos time, bool with_its_clock) {
  if (!host.running() || host.frozen()) return;
  with_its_clock ? host.pause() : host.freeze();
  world_.scheduler.after(time, Owner::world, &Nemesis::on_thaw, this, number(host.side()));
}

void Nemesis::restart_at_once(Host& host) {
  if (host.running()) host.end(Host::End::killed);
  world_.scheduler.after(random_.below(5 * kMillisecond), Owner::world, &Nemesis::on_boot, this, number(host.side()));
}

void Nemesis::end(Host& host, Host::End how) {
  host.end(how);
  world_.scheduler.after(a_while(5 * kMillisecond, 8 * kSecond), Owner::world, &Nemesis::on_boot, this,
                         number(host.side()));
}

void Nemesis::on_boot(void* self, std::uint64_t side) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  nemesis.boot(nemesis.world_.host(side_of(side)));
}

void Nemesis::boot(Host& host) {
  if (host.running()) return;
  if (world_.scenario.faults.corruption && random_.chance(500'000)) {
    const auto machine = host.machine();
    const auto volume = static_cast<unsigned>(random_.below(world_.scenario.volumes.size()));
    if (auto wrong = world_.kind.corruption_probe(*machine, volume, random_)) return world_.verdict.fail(*wrong);
  }
  host.boot();
}

void Nemesis::on_thaw(void* self, std::uint64_t side) {
  static_cast<Nemesis*>(self)->world_.host(side_of(side)).thaw();
}

void Nemesis::on_mend_network(void* self, std::uint64_t from) {
  static_cast<Nemesis*>(self)->world_.cut(side_of(from), true);
}

void Nemesis::on_mend_witness(void* self, std::uint64_t side) {
  Host& host = static_cast<Nemesis*>(self)->world_.host(side_of(side));
  static_cast<Nemesis*>(self)->world_.trace.add(host.name(), "witness.reachable");
  host.witness().set_reachable(true);
}

void Nemesis::spoil_store(Fault fault, Host& host) {
  for (VolumeStores& stores : host.stores()) {
    for (SimStore* store : {stores.data.get(), stores.metadata.get()}) {
      if (random_.chance(400'000)) continue;
      StoreFaults faults = store->faults();
      const std::uint32_t often =
          random_.chance(300'000) ? 1'000'000 : static_cast<std::uint32_t>(random_.between(2'000, 100'000));
      if (fault == Fault::store_errors) {
        if (random_.chance(500'000)) faults.read_error = often;
        if (random_.chance(500'000)) faults.write_error = often;
        if (random_.chance(500'000)) faults.flush_error = often;
        if (world_.scenario.cached) faults.flush_error = 0;  // README.md: not yet kept
      }
      if (fault == Fault::store_hang) faults.hang = often;
      if (fault == Fault::store_slow) faults.slowest = random_.between(20, 400) * kMillisecond;
      if (fault == Fault::store_full && store == stores.data.get()) faults.full = true;
      world_.trace.add(host.name(), "store.faults",
                       {{"read", faults.read_error},
                        {"write", faults.write_error},
                        {"flush", faults.flush_error},
                        {"hang", faults.hang},
                        {"slowest", faults.slowest},
                        {"full", faults.full}});
      store->set_faults(faults);
    }
  }
  world_.scheduler.after(a_while(50 * kMillisecond, 6 * kSecond), Owner::world, &Nemesis::on_mend_store, this,
                         number(host.side()));
}

void Nemesis::mend_store(Host& host) {
  StoreFaults good;
  good.slowest = world_.scenario.slowest_store;
  world_.trace.add(host.name(), "store.mended");
  for (VolumeStores& stores : host.stores()) {
    for (SimStore* store : {stores.data.get(), stores.metadata.get()}) {
      store->set_faults(good);
      store->release_hung();
    }
  }
}

void Nemesis::on_mend_store(void* self, std::uint64_t side) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  nemesis.mend_store(nemesis.world_.host(side_of(side)));
}

void Nemesis::on_restart_after_leave(void* self, std::uint64_t side) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  Host& host = nemesis.world_.host(side_of(side));
  if (nemesis.over_ || !host.running() || host.frozen()) return;
  if (nemesis.careful()) {  // not while its partner is a copy of an earlier day
    nemesis.world_.scheduler.after(kSecond, Owner::world, &Nemesis::on_restart_after_leave, self, side);
    return;
  }
  host.shut_down();
  nemesis.world_.scheduler.after(kSecond * 9, Owner::world, &Nemesis::on_boot, self, side);
}

void Nemesis::heal() {
  over_ = true;
  world_.trace.add('-', "nemesis.heal");
  goes_on_everywhere();
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    Host& host = world_.host(side);
    world_.cut(side, true);
    host.witness().set_reachable(true);
    host.slow_witness().set_slowness(0);
    mend_store(host);
    host.thaw();
  }
  nurse();
}

/// Without a disk that fails what it is told, each comes back by itself.
void Nemesis::nurse_store(Host& host) {
  const FaultKinds& f = world_.scenario.faults;
  Nanos& since = failed_since_[number(host.side())];
  bool failed = false, metadata = false;  // which nothing is done with any more before its process ends
  for (unsigned v = 0; v < world_.scenario.volumes.size(); ++v) {
    const auto status = host.status(v);
    if (!status || status->state != replication::MirrorState::failed) continue;
    failed = true;
    metadata |= status->reason.find("metadata") != std::string::npos;
  }
  if (!failed) return void(since = 0);
  if (since == 0) since = world_.scheduler.now();
  const bool fails = metadata || f.store_errors || f.both_stores || f.two_at_once || f.bad_sectors;
  if (!fails || world_.scheduler.now() < since + kComesBack) return;
  since = 0;
  host.end(Host::End::killed);
}

void Nemesis::nurse() {
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    Host& host = world_.host(side);
    if (host.stopping() || world_.scheduler.now() < host.booted_at() + 4 * kSecond) continue;
    for (unsigned v = 0; v < world_.scenario.volumes.size() && host.running(); ++v) {
      const auto status = host.status(v);
      if (!status) continue;
      world_.bad_sectors->heal_what_is_told(host, v, *status);
      if (status->state == replication::MirrorState::split_brain && world_.checkers->split(v)) give_up_a_split(host, v);
      if (status->state == replication::MirrorState::waiting && restored_ == &host) go_on_with_an_old_copy(host, v);
      if (side == NodeSide::b) decide_between_old_copies(v);
      if (grew_in_the_dark(host, v)) go_on_with_an_old_copy(world_.host(engine::other(side)), v);
      if (host.misplaces() || status->state == replication::MirrorState::left) host.end(Host::End::killed);
    }
    nurse_store(host);
    if (!host.running()) boot(host);
  }
}

}  // namespace lockstep::simulation
