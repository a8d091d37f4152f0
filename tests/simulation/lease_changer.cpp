#include "tests/simulation/lease_changer.hpp"

#include <utility>

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::NodeSide;

namespace {
constexpr NodeSide kSides[] = {NodeSide::a, NodeSide::b};
constexpr std::uint32_t kChangesItsMind = 150'000;  ///< in a million
}  // namespace

LeaseChanger::LeaseChanger(World& world)
    : world_(world), random_(world.scenario.seed ^ 0x6c65617365), now_(world.scenario.lease), target_(now_) {}

void LeaseChanger::start() {
  if (!world_.scenario.changes_lease) return;
  for (const NodeSide side : kSides) tell(side, {now_, 0});
  world_.scheduler.after(random_.below(world_.scenario.duration), Owner::world, &LeaseChanger::on_begin, this);
}

/// The hosts' patience, and what a link may take, are made for the scenario's own: that is the longest.
void LeaseChanger::on_begin(void* self, std::uint64_t) {
  auto& changer = *static_cast<LeaseChanger*>(self);
  if (changer.world_.scheduler.now() > changer.world_.scenario.duration) return;
  const Nanos longest = changer.world_.scenario.lease;
  changer.change(changer.random_.chance(400'000) ? longest : changer.random_.between(longest / 2, longest));
}

void LeaseChanger::change(Nanos lease) {
  target_ = lease;
  world_.trace.note('-', "operator: the lease becomes " + std::to_string(lease / kMillisecond) + " ms");
  tell_both(Stage::either);
  world_.scheduler.after(kMillisecond, Owner::world, &LeaseChanger::on_look, this, 0);
}

LeaseTold LeaseChanger::wanted() const {
  if (target_ == now_) return {now_, 0};
  if (stage_ == Stage::either) return {now_, target_};
  if (stage_ == Stage::held) return {target_, now_};
  return {target_, 0};
}

void LeaseChanger::tell_both(Stage stage) {
  stage_ = stage;
  for (const NodeSide side : kSides) {
    world_.scheduler.after(random_.skewed(kMillisecond, 3 * kSecond), Owner::world, &LeaseChanger::on_tell, this,
                           static_cast<std::uint64_t>(side));
  }
}

void LeaseChanger::on_tell(void* self, std::uint64_t side) {
  auto& changer = *static_cast<LeaseChanger*>(self);
  changer.tell(static_cast<NodeSide>(side), changer.wanted());
}

/// A program that is not there reads it when it starts.
void LeaseChanger::tell(NodeSide side, LeaseTold what) {
  LeaseTold& told = told_[static_cast<std::size_t>(side)];
  if (told == what) return;
  world_.trace.note(side == NodeSide::a ? 'a' : 'b', "lease: " + std::to_string(what.lease / kMillisecond) +
                                                         " ms, beside " + std::to_string(what.other / kMillisecond));
  told = what;
  Host& host = world_.host(side);
  if (host.running()) host.program()->set_lease(what.lease, what.other);
}

bool LeaseChanger::carries_out(NodeSide side) {
  Host& host = world_.host(side);
  if (told(side) != wanted() || !host.running()) return false;
  if (stage_ != Stage::held) return true;
  const auto lease = host.program()->lease();
  return lease.settled && static_cast<Nanos>(lease.held.count()) == target_;
}

/// Each node at another moment, as by two requests.
void LeaseChanger::on_look(void* self, std::uint64_t side) {
  static_cast<LeaseChanger*>(self)->look_at(static_cast<NodeSide>(side));
}

void LeaseChanger::look_at(NodeSide side) {
  const bool good = carries_out(side);
  if (good && side == NodeSide::b) {
    next();
    if (stage_ == Stage::idle) return;
  }
  const NodeSide next_side = good && side == NodeSide::a ? NodeSide::b : NodeSide::a;
  const Nanos delay = good ? random_.between(kMillisecond, 100 * kMillisecond) : 100 * kMillisecond;
  world_.scheduler.after(delay, Owner::world, &LeaseChanger::on_look, this, static_cast<std::uint64_t>(next_side));
}

/// Both go by the step before. Back: either way it is another change of the same kind, from where both stand.
void LeaseChanger::next() {
  switch (stage_) {
    case Stage::either:
      if (!random_.chance(kChangesItsMind)) return tell_both(Stage::held);
      target_ = now_;
      return tell_both(Stage::alone);
    case Stage::held:
      if (!random_.chance(kChangesItsMind)) return tell_both(Stage::alone);
      std::swap(now_, target_);
      return tell_both(Stage::held);
    case Stage::alone:
      now_ = target_;
      stage_ = Stage::idle;
      world_.scheduler.after(random_.between(kMillisecond, 4 * kSecond), Owner::world, &LeaseChanger::on_begin, this);
      return;
    case Stage::idle:
      return;
  }
}

}  // namespace lockstep::simulation
