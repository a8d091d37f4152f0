#include "tests/simulation/grower.hpp"

#include <algorithm>

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::NodeSide;

Grower::Grower(World& world) : world_(world), random_(world.scenario.seed ^ 0x67726f7773) {
  told_.assign(world.scenario.volumes.size(), world.scenario.volume_size());
}

void Grower::start() {
  if (world_.scenario.grown_regions == 0) return;
  world_.scheduler.after(random_.below(world_.scenario.duration), Owner::world, &Grower::on_try, this);
}

void Grower::on_try(void* self, std::uint64_t) { static_cast<Grower*>(self)->ask_for_room(); }

/// Until it is decided.
void Grower::ask_for_room() {
  if (world_.wanted_size != 0) return;
  world_.scheduler.after(random_.between(kSecond, 4 * kSecond), Owner::world, &Grower::on_try, this);
  const std::uint64_t attempt = ++attempt_;
  made_ = {};
  world_.trace.add('-', "operator.grow", {{"attempt", attempt}, {"size", world_.scenario.grown_size()}});
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    Host& host = world_.host(side);
    if (!host.running() || host.frozen() || host.stopping() || host.program()->disk(kVolume) == nullptr) return;
    host.program()->make_room(kVolume, world_.scenario.grown_size(), [this, attempt, side](engine::Result<void> made) {
      room_made(attempt, side, made.has_value());
    });
  }
}

void Grower::room_made(std::uint64_t attempt, NodeSide side, bool made) {
  world_.trace.add(side == NodeSide::a ? 'a' : 'b', "operator.room", {{"attempt", attempt}, {"made", made}});
  if (attempt != attempt_) return;
  made_[static_cast<std::size_t>(side)] = made;
  if (made_[0] && made_[1]) decide();
}

void Grower::decide() {
  world_.wanted_size = world_.scenario.grown_size();
  world_.trace.add('-', "operator.size_wanted", {{"size", world_.wanted_size}});
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    world_.scheduler.after(random_.skewed(kMillisecond, 3 * kSecond), Owner::world, &Grower::on_apply, this,
                           static_cast<std::uint64_t>(side));
  }
}

// A node that is away, or has not attached the volume yet, reads what is wanted when it does.
void Grower::on_apply(void* self, std::uint64_t side) {
  World& world = static_cast<Grower*>(self)->world_;
  Host& host = world.host(static_cast<NodeSide>(side));
  if (host.running()) host.program()->take_size(kVolume, world.wanted_size);
}

bool Grower::satisfied() const {
  if (world_.scenario.grown_regions == 0) return true;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    const auto status = world_.host(side).status(kVolume);
    if (!status || status->epoch.size != world_.scenario.grown_size()) return false;
  }
  return true;
}

void Grower::status_seen(unsigned volume, const replication::VolumeStatus& status) {
  if (status.serving) told_[volume] = std::max(told_[volume], status.epoch.size);
}

}  // namespace lockstep::simulation
