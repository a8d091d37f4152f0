// Operators' orders: what they detach, replace, force and give up, and the caches that they switch.
#include "tests/simulation/dark.hpp"
#include "tests/simulation/nemesis.hpp"
#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::NodeSide;
using replication::MirrorState;

namespace {
constexpr Nanos kCacheSwitched = kSecond;  ///< within which both nodes are told that a cache is on
}  // namespace

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
  world_.caches->detached(host, *volume);
}

/// As management does it: not while the other is not seen to go on alone.
void Nemesis::replace(Host& host) {
  const auto volume = volume_to_detach(host);
  if (!volume || !host.is_only_a_target(*volume)) return;
  detached_in_[number(host.side())] = host.life();
  host.replace_copy(*volume);
  world_.caches->detached(host, *volume);
}

/// The partner is off or cut off. When it goes on none the less, the operator was wrong, and one of the two gives up.
/// Perhaps the copy that he forces is one of an earlier day: then hosts lose what came since, by his word.
void Nemesis::force(Host& host) {
  if (!usable(host) || !world_.is_whole()) return;
  Host& partner = world_.host(engine::other(host.side()));
  careful_until_ = world_.scheduler.now() + kLongestCare;
  restarts_in_care_ = false;
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
    world.checkers->force_ordered(host, v);
    host.program()->force_solo(v, (how & 2) != 0, [&world, v, name = host.name()](engine::Result<void> done) {
      world.checkers->force_answered(v);
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
  const bool split = world_.checkers->split(volume);
  host.program()->give_up(volume, [this, volume, split, name = host.name()](engine::Result<void> done) {
    world_.trace.add(name, "operator.gave_up", {{"done", done.has_value()}});
    if (done && !split && !world_.checkers->split(volume)) {
      world_.verdict.fail(std::string("promise 6: node ") + name +
                          " gives up its changes though the two replicas never parted ways");
    }
  });
}

/// It may be all that there is: of the only member nobody has more, and of two nobody may know what is missing.
void Nemesis::go_on_with_an_old_copy(Host& host, unsigned volume) {
  if (!usable(host)) return;
  world_.trace.add(host.name(), "operator.force", {{"volume", volume}});
  world_.checkers->force_ordered(host, volume);
  host.program()->force_solo(volume, true,
                             [this, volume](engine::Result<void>) { world_.checkers->force_answered(volume); });
}

/// A copy that was set back and grew where it heard nobody stands in an epoch of its own, but knows of its later state:
/// neither it nor its partner, which is no member there, serves before an operator says which.
bool Nemesis::grew_in_the_dark(Host& host, unsigned volume) {
  Host& partner = world_.host(engine::other(host.side()));
  if (!is_dark(world_.scenario) || !usable(host) || !usable(partner)) return false;
  const auto own = host.status(volume), theirs = partner.status(volume);
  if (!own || !theirs || own->state != MirrorState::waiting) return false;
  if (own->reason.find("set back") == std::string::npos) return false;  // it waits for something else
  const bool partner_waits = theirs->state == MirrorState::waiting || theirs->state == MirrorState::suspended;
  return partner_waits && own->epoch.members == engine::MemberSet::only(host.side()) && theirs->epoch.members.is_both();
}

void Nemesis::give_up_a_split(Host& host, unsigned volume) {
  // Always the same one of the two, unless it is refused, and one order at a time in each of its lives.
  if (number(host.side()) != (world_.scenario.seed + refused_) % 2 || !usable(host) || giving_up_in_ == host.life())
    return;
  giving_up_in_ = host.life();
  world_.trace.add(host.name(), "operator.give_up", {{"volume", volume}});
  host.program()->give_up(volume, [this, &host](engine::Result<void> done) {
    giving_up_in_ = 0;
    if (!done && (restored_ || both_restored_ || is_dark(world_.scenario)))
      ++refused_;  // the other's copy may not serve alone: it is that one's to give up
    world_.trace.add(host.name(), "operator.gave_up", {{"done", done.has_value()}});
  });
}

/// Where power cuts may not take what is cached, only in worlds without.
void Nemesis::write_cache() {
  const FaultKinds& f = world_.scenario.faults;
  const bool cuts =
      f.power_cut || f.power_cut_both || f.revert || f.revert_both || f.memory || f.dies_twice || world_.scenario.fence;
  if ((cuts && !world_.scenario.cached) || cached_) return;
  cached_ = true;
  const std::uint64_t volume = random_.below(world_.scenario.volumes.size());
  if (world_.scenario.volumes[volume].write_cache) return on_cache_off(this, volume);
  put_cache_on(volume);
  world_.scheduler.after(a_while(1100 * kMillisecond, 4 * kSecond), Owner::world, &Nemesis::on_cache_off, this, volume);
}

void Nemesis::put_cache_on(std::uint64_t volume) {
  world_.trace.add('-', "operator.cache_on", {{"volume", volume}});
  world_.caches->switched(static_cast<unsigned>(volume), true);
  for (std::uint64_t side = 0; side < 2; ++side) {
    world_.scheduler.after(random_.skewed(0, kCacheSwitched), Owner::world, &Nemesis::on_switch_cache, this,
                           volume << 2 | 2 | side);
  }
}

/// It is on again after a while where it was at first. A process that is not there is told nothing, and starts with
/// what its volumes had at first.
void Nemesis::on_cache_off(void* self, std::uint64_t volume) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  World& world = nemesis.world_;
  if (world.host(NodeSide::a).frozen() || world.host(NodeSide::b).frozen()) {
    return world.scheduler.after(100 * kMillisecond, Owner::world, &Nemesis::on_cache_off, self, volume);
  }
  for (std::uint64_t side = 0; side < 2; ++side) on_switch_cache(self, volume << 2 | side);
  world.trace.add('-', "operator.cache_off", {{"volume", volume}});
  const bool on_at_first = world.scenario.volumes[volume].write_cache;
  const bool both = world.host(NodeSide::a).status(static_cast<unsigned>(volume)) &&
                    world.host(NodeSide::b).status(static_cast<unsigned>(volume));
  if (both || !on_at_first) world.caches->switched(static_cast<unsigned>(volume), false);
  if (!on_at_first) return void(nemesis.cached_ = false);
  world.scheduler.after(nemesis.a_while(1100 * kMillisecond, 4 * kSecond), Owner::world, &Nemesis::on_cache_on_again,
                        self, volume);
}

void Nemesis::on_cache_on_again(void* self, std::uint64_t volume) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  nemesis.put_cache_on(volume);
  const auto both_know = [](void* of, std::uint64_t) { static_cast<Nemesis*>(of)->cached_ = false; };
  nemesis.world_.scheduler.after(kCacheSwitched, Owner::world, both_know, self);
}

/// A process that starts has it as it was at first.
void Nemesis::on_switch_cache(void* self, std::uint64_t order) {
  Host& host = static_cast<Nemesis*>(self)->world_.host(side_of(order & 1));
  const auto volume = static_cast<unsigned>(order >> 2);
  if (host.running() && !host.frozen()) host.program()->set_write_cache(volume, (order & 2) != 0);
}

}  // namespace lockstep::simulation
