#include "tests/simulation/write_caches.hpp"

#include <algorithm>

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::EpochRecord;
using engine::NodeSide;
using replication::MirrorState;

namespace {
constexpr NodeSide kSides[] = {NodeSide::a, NodeSide::b};
std::size_t index_of(NodeSide side) { return static_cast<std::size_t>(side); }

bool serves_as_member(MirrorState state) {
  return state == MirrorState::in_sync || state == MirrorState::solo || state == MirrorState::syncing_source;
}
}  // namespace

WriteCaches::WriteCaches(World& world) : world_(world), volumes_(world.scenario.volumes.size()) {
  for (std::size_t v = 0; v < volumes_.size(); ++v) {
    volumes_[v].used = volumes_[v].on = world.scenario.volumes[v].write_cache;
  }
}

void WriteCaches::switched(unsigned volume, bool on) {
  volumes_[volume].on = on;
  volumes_[volume].used |= on;
  volumes_[volume].strict_since = world_.history.begin_read();
}

void WriteCaches::booted() {
  for (std::size_t v = 0; v < volumes_.size(); ++v) volumes_[v].on |= world_.scenario.volumes[v].write_cache;
}

bool WriteCaches::may_hold(unsigned volume, const WriteRecord& write) const {
  return !write.fua && (volumes_[volume].on || write.start < volumes_[volume].strict_since);
}

void WriteCaches::ended(const Host& host, bool lost_power) {
  for (unsigned v = 0; v < volumes_.size(); ++v) {
    if (lost_power) volumes_[v].complete[index_of(host.side())] = false;
    detached(host, v);
  }
}

void WriteCaches::detached(const Host& host, unsigned volume) {
  volumes_[volume].served_in[index_of(host.side())] = 0;
  volumes_[volume].on |= world_.scenario.volumes[volume].write_cache;
  look_for_loss(volume);
}

/// A copy that joins has all; its partner, which it has it from, says so, too. One that starts alone, after a power
/// cut, has what that left, though its partner, which can't be asked, may have it all.
void WriteCaches::status_seen(const Host& host, unsigned volume, const replication::VolumeStatus& status) {
  Volume& v = volumes_[volume];
  if (!v.used) return;
  const std::size_t own = index_of(host.side());
  if (serves_as_member(status.state)) v.served_in[own] = host.life();
  if (v.complete[own]) return;
  if (serves_as_member(status.state) && !status.epoch.members.is_both()) return look_for_loss(volume);
  if (status.state != MirrorState::in_sync) return;
  const auto record = newest(volume);
  v.complete[own] = record && record->id == status.epoch.id;
}

std::optional<EpochRecord> WriteCaches::newest(unsigned volume) {
  const auto a = world_.host(NodeSide::a).recorded(volume), b = world_.host(NodeSide::b).recorded(volume);
  if (!a || !b) return a ? a : b;
  return b->descends_from(*a) ? b : a;
}

bool WriteCaches::goes_on(NodeSide side, const Volume& volume) {
  const Host& host = world_.host(side);
  return host.running() && volume.served_in[index_of(side)] == host.life() && volume.complete[index_of(side)];
}

/// Where no member goes on those that start again agree on one copy, whichever of theirs it is.
void WriteCaches::look_for_loss(unsigned volume) {
  Volume& v = volumes_[volume];
  if (!v.used) return;
  const auto record = newest(volume);
  bool all_complete = true;
  for (const NodeSide side : kSides) {
    const bool member = !record || record->members.contains(side);
    if (!member) v.complete[index_of(side)] = false;
    if (member && goes_on(side, v)) return;
    all_complete &= !member || v.complete[index_of(side)];
  }
  if (all_complete) return;
  world_.trace.add('-', "caches.lost", {{"volume", volume}});
  world_.history.lost_power(volume, [&](const WriteRecord& w) { return may_hold(volume, w); });
  for (const NodeSide side : kSides) v.complete[index_of(side)] = !record || record->members.contains(side);
}

}  // namespace lockstep::simulation
