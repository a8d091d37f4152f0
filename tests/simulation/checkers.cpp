#include "tests/simulation/checkers.hpp"

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::EpochRecord;
using engine::NodeSide;
using replication::MirrorState;

namespace {

bool acts_by_itself(MirrorState state) {
  return state == MirrorState::in_sync || state == MirrorState::solo || state == MirrorState::syncing_source;
}

/// Its disk may have failed since.
bool acted_by_itself(MirrorState state) { return acts_by_itself(state) || state == MirrorState::failed; }

std::string name_of(const EpochRecord& e) {
  return std::to_string(e.number) + " of " +
         (e.members.is_both() ? "{A,B}" : (e.members.contains(NodeSide::a) ? "{A}" : "{B}"));
}

}  // namespace

Checkers::Checkers(World& world) : world_(world) {
  volumes_.resize(world.scenario.volumes.size());
  for (std::size_t i = 0; i < volumes_.size(); ++i) seen_.emplace_back(world.scenario.largest_size() / kBlock);
}

void Checkers::note_written(unsigned volume, std::uint64_t first, std::uint32_t count, Value value) {
  for (std::uint32_t i = 0; i < count; ++i) seen_[volume][first + i] = value;
}

void Checkers::write_acknowledged(Host& host, unsigned volume, Value value) {
  look_for_one(volume);
  if (!world_.kind.replicates || split(volume)) return;
  if (host.found_set_back()) world_.verdict.fail("a process that knows that it was set back acknowledges a write");
  const Acting acting = acting_for(host, volume);
  if (!acting.epoch) return;
  if (acting.own) {
    check_line(host, volume, *acting.own);
    auto& acted = volumes_[volume].acted_in[static_cast<std::size_t>(host.side())];
    acted = std::max(acted, acting.own->number);
  }
  if (world_.caches->may_hold(volume, world_.history.write(value))) return;
  for (Host* holder : holders_of(acting, volume)) check_durable(*holder, volume, value, *acting.epoch);
}

/// Alone, a store that failed a flush has lost what a later one does not bring back (README.md).
void Checkers::flush_acknowledged(Host& host, unsigned volume, Moment began) {
  world_.history.flushed(volume, began);
  // Elsewhere flushes fail, and disks lose what a write under way has replaced.
  look_for_one(volume);
  if (!world_.kind.replicates || split(volume) || !world_.scenario.cached || !world_.caches->used(volume)) return;
  const Acting acting = acting_for(host, volume);
  if (!acting.epoch) return;
  if (acting.own && volumes_[volume].lifted) check_line(host, volume, *acting.own);
  if (split(volume)) return;
  for (Host* holder : holders_of(acting, volume)) {
    for (Value value = 1; value <= world_.history.write_count(); ++value) {
      const WriteRecord& w = world_.history.write(value);
      if (w.volume == volume && w.flushed && !world_.verdict.failed()) {
        check_durable(*holder, volume, value, *acting.epoch);
      }
    }
  }
}

Checkers::Acting Checkers::acting_for(Host& host, unsigned volume) {
  const auto own = host.status(volume);
  if (!own) return acting_for_detached(host, volume);
  // A node that forwards acknowledges what its partner's epoch made durable; so does one that has not heard yet that
  // its partner went on without it: the answer was on its way, or the node stood still with it.
  auto acting = own;
  Host& other = world_.host(engine::other(host.side()));
  const auto others = other.status(volume);
  // It may be down since.
  const auto last = others ? std::nullopt : other.recorded(volume);
  if (last && last->members == engine::MemberSet::only(other.side()) && last->descends_from(own->epoch)) {
    return {.epoch = last};
  }
  const bool overtaken = others && acted_by_itself(others->state) && others->epoch.id != own->epoch.id &&
                         others->epoch.descends_from(own->epoch);
  if (!acts_by_itself(own->state) || overtaken) acting = others;
  if (!acting || !acted_by_itself(acting->state)) {
    // Nobody acts any more: what is answered now was done in the epoch that they had, or have still.
    const auto newest = others ? std::optional(others->epoch) : last;
    return {.epoch = newest && newest->descends_from(own->epoch) ? *newest : own->epoch, .may_have_left = true};
  }
  return {.epoch = acting->epoch,
          .own = acts_by_itself(own->state) ? std::optional(own->epoch) : std::nullopt,
          .may_have_left = true};
}

/// Out of service, it acknowledges what was under way, in the epoch that it has recorded; or in the partner's, as
/// above.
Checkers::Acting Checkers::acting_for_detached(Host& host, unsigned volume) {
  const auto recorded = host.recorded(volume);
  if (!recorded) return {};
  const auto others = world_.host(engine::other(host.side())).status(volume);
  const bool overtaken = others && acts_by_itself(others->state) && others->epoch.descends_from(*recorded);
  return {.epoch = overtaken ? others->epoch : *recorded};
}

std::vector<Host*> Checkers::holders_of(const Acting& acting, unsigned volume) {
  std::vector<Host*> holders;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    Host& holder = world_.host(side);
    if (!acting.epoch->members.contains(side)) continue;
    if (!acting.may_have_left || !has_left(holder, volume, *acting.epoch)) holders.push_back(&holder);
  }
  return holders;
}

/// By its record it is a member no more: its word that it left is on its way to the other.
bool Checkers::has_left(Host& host, unsigned volume, const EpochRecord& epoch) {
  if (!host.running()) return false;
  const auto status = host.status(volume);
  const auto recorded = status ? std::optional(status->epoch) : host.recorded(volume);
  return recorded && recorded->descends_from(epoch) && !recorded->members.contains(host.side());
}

void Checkers::check_durable(Host& holder, unsigned volume, Value value, const EpochRecord& epoch) {
  const WriteRecord& w = world_.history.write(value);
  // It had the write when it said so; nothing is durable on disks that are taken back.
  if (w.start < set_back_at_[static_cast<std::size_t>(holder.side())]) return;
  const auto image = holder.data(volume).stable();
  for (std::uint64_t block = w.first; block < w.first + w.count; ++block) {
    const Value found = read_stamp(image.subspan(block * kBlock, kBlock), block);
    if (world_.history.not_older(volume, block, found, value)) continue;
    if (holder.data(volume).is_lost_below(block)) continue;  // it had the write, and lost the sector since
    return world_.verdict.fail("promise 1: write #" + std::to_string(value) + " to volume " + std::to_string(volume) +
                               " block " + std::to_string(block) + " was acknowledged in epoch " + name_of(epoch) +
                               " while node " + holder.name() + "'s stable storage holds #" + std::to_string(found) +
                               " there");
  }
}

void Checkers::check_line(Host& host, unsigned volume, const EpochRecord& epoch) {
  Volume& v = volumes_[volume];
  if (!v.newest || (epoch.id != v.newest->id && epoch.descends_from(*v.newest))) {
    v.newest = epoch;
    v.newest_since = world_.history.begin_read();
    return;
  }
  if (epoch.id == v.newest->id) return;
  const bool disjoint = (epoch.members.bits & v.newest->members.bits) == 0;
  if (v.newest->descends_from(epoch) && !disjoint) return;
  if (v.lifted) return void(v.lifted->split = true);
  world_.verdict.fail(std::string("promise 2: node ") + host.name() + " acknowledges a write in epoch " +
                      name_of(epoch) + " after writes were acknowledged in epoch " + name_of(*v.newest) +
                      (disjoint ? ", whose members are others" : ", which does not descend from it"));
}

void Checkers::read_answered(Host& host, unsigned volume, Moment began) {
  look_for_one(volume);
  if (!world_.kind.replicates || split(volume)) return;
  if (host.found_set_back()) world_.verdict.fail("a process that knows that it was set back answers a read");
  const Volume& v = volumes_[volume];
  const auto own = host.status(volume);
  if (!own || !v.newest || !acts_by_itself(own->state) || v.newest_since >= began) return;
  if (v.newest->members.contains(host.side()) || own->epoch.id == v.newest->id) return;
  if (!v.newest->descends_from(own->epoch)) return;
  world_.verdict.fail(std::string("promise 4: node ") + host.name() + " answers a read in epoch " +
                      name_of(own->epoch) + " though epoch " + name_of(*v.newest) +
                      " had acknowledged writes before the read began");
}

void Checkers::set_back(NodeSide side) {
  for (Volume& v : volumes_) v.acted_in[static_cast<std::size_t>(side)] = 0;
  set_back_at_[static_cast<std::size_t>(side)] = world_.history.begin_read();
}

void Checkers::both_set_back() {
  for (unsigned v = 0; v < volumes_.size(); ++v) {
    lift(v);
    volumes_[v].newest.reset();
    world_.history.set_back(v);
  }
}

// --- What an operator's word lifts -----------------------------------------------------------------------------------

Checkers::Lifted& Checkers::lift(unsigned volume) {
  Volume& v = volumes_[volume];
  v.was_forced = true;
  if (!v.lifted) v.lifted = Lifted{.since = world_.history.begin_read()};
  return *v.lifted;
}

void Checkers::force_ordered(const Host& host, unsigned volume) {
  Lifted& lifted = lift(volume);
  lifted.told = &host;
  lifted.life = host.life();
}

void Checkers::force_answered(unsigned volume) {
  if (auto& lifted = volumes_[volume].lifted) lifted->told = nullptr;
}

void Checkers::expect_loss() {
  for (unsigned v = 0; v < volumes_.size(); ++v) lift(v).split = true;
}

void Checkers::expect_split() {
  for (unsigned v = 0; v < volumes_.size(); ++v) lift(v).for_good = true;
}

/// What hosts saw meanwhile may be of either line, and what was acknowledged may be lost.
void Checkers::look_for_one(unsigned volume) {
  Volume& v = volumes_[volume];
  if (!v.lifted || v.lifted->for_good || world_.scenario.cached) return;  // README.md: not yet kept
  if (v.lifted->told && v.lifted->told->running() && v.lifted->told->life() == v.lifted->life) return;
  const auto a = world_.host(NodeSide::a).status(volume), b = world_.host(NodeSide::b).status(volume);
  if (!a || !b || a->state != MirrorState::in_sync || b->state != MirrorState::in_sync) return;
  if (a->epoch.id != b->epoch.id) return;
  if (v.lifted->split) {
    world_.history.leave_out(volume, v.lifted->since);
    v.newest = a->epoch;
    v.newest_since = world_.history.begin_read();
  }
  v.lifted.reset();
}

void Checkers::end() {
  for (unsigned v = 0; v < volumes_.size(); ++v) {
    look_for_one(v);
    if (split(v)) world_.history.leave_out(v, volumes_[v].lifted->since, kNever);
  }
}

void Checkers::volume_seen(Host& host, unsigned volume, const replication::VolumeStatus& status) {
  look_for_one(volume);
  Volume& v = volumes_[volume];
  if (status.state == MirrorState::split_brain && v.lifted) v.lifted->split = true;
  if (status.state == MirrorState::split_brain && !v.lifted) {
    world_.verdict.fail(std::string("promise 2: node ") + host.name() + " finds volume " + std::to_string(volume) +
                        " in split brain, and no operator forced anything: " + status.reason);
  }
  const std::uint64_t acted = v.acted_in[static_cast<std::size_t>(host.side())];
  if (status.epoch.number != 0 && status.epoch.number < acted) {
    world_.verdict.fail(std::string("promise 6: node ") + host.name() + " is back in epoch " + name_of(status.epoch) +
                        " though it acknowledged writes in epoch " + std::to_string(acted));
  }
}

}  // namespace lockstep::simulation
