#include "tests/simulation/arbiter_changer.hpp"

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::ArbiterKind;
using engine::NodeSide;
using replication::ArbiterWish;

namespace {

constexpr NodeSide kSides[] = {NodeSide::a, NodeSide::b};
constexpr const char* kNames[] = {"witness", "nobody", "preferred a", "preferred b", "fence"};

ArbiterChanger::Told named_by(const engine::ArbiterSettings& arbiter) {
  using Told = ArbiterChanger::Told;
  if (arbiter.kind == ArbiterKind::witness) return Told::witness;
  if (arbiter.kind == ArbiterKind::fence) return Told::fence;
  return arbiter.preferred == NodeSide::a ? Told::preferred_a : Told::preferred_b;
}

}  // namespace

ArbiterChanger::ArbiterChanger(World& world)
    : world_(world),
      random_(world.scenario.seed ^ 0x617262697465),
      now_(named_by(world.scenario.arbiter)),
      target_(now_),
      told_{now_, now_} {}

void ArbiterChanger::start() {
  if (!world_.scenario.changes_arbiter) return;
  for (const NodeSide side : kSides) tell(side, now_);
  world_.scheduler.after(random_.below(world_.scenario.duration), Owner::world, &ArbiterChanger::on_begin, this);
}

void ArbiterChanger::on_begin(void* self, std::uint64_t) {
  auto& changer = *static_cast<ArbiterChanger*>(self);
  if (changer.world_.scheduler.now() > changer.world_.scenario.duration) return;
  constexpr Told kAll[] = {Told::witness, Told::preferred_a, Told::preferred_b, Told::fence};
  changer.change(kAll[changer.random_.below(changer.world_.scenario.fences_in_use ? 4 : 3)]);
}

void ArbiterChanger::change(Told target) {
  target_ = target;
  stage_ = Stage::stopping;
  world_.trace.note('-', std::string("operator: the arbiter becomes ") + kNames[static_cast<int>(target)]);
  tell_both(Told::nobody);
  world_.scheduler.after(kMillisecond, Owner::world, &ArbiterChanger::on_look, this, 0);
}

void ArbiterChanger::tell_both(Told what) {
  for (const NodeSide side : kSides) {
    world_.scheduler.after(random_.skewed(kMillisecond, 3 * kSecond), Owner::world, &ArbiterChanger::on_tell, this,
                           static_cast<std::uint64_t>(side) | static_cast<std::uint64_t>(what) << 1);
  }
}

void ArbiterChanger::on_tell(void* self, std::uint64_t side_and_what) {
  static_cast<ArbiterChanger*>(self)->tell(static_cast<NodeSide>(side_and_what & 1),
                                           static_cast<Told>(side_and_what >> 1));
}

/// The witness is let go of before anybody is wished for in its place. A program that is not there reads the wish when
/// it starts.
void ArbiterChanger::tell(NodeSide side, Told what) {
  const auto i = static_cast<std::size_t>(side);
  world_.trace.note(side == NodeSide::a ? 'a' : 'b', std::string("arbiter: ") + kNames[static_cast<int>(what)]);
  told_[i] = what;
  wishes_[i] = what == Told::witness ? ArbiterWish::none : static_cast<ArbiterWish>(what);
  Host& host = world_.host(side);
  host.witness().use(what == Told::witness ? &world_.witness : nullptr);
  host.fence().use(what == Told::fence);
  if (!host.running()) return;
  host.program()->use_fence(what == Told::fence);
  host.program()->look_at_witness_again();
  for (unsigned v = 0; v < world_.scenario.volumes.size(); ++v) host.program()->want_arbiter(v, wishes_[i]);
}

bool ArbiterChanger::carries_out(NodeSide side, Told what) {
  if (told_[static_cast<std::size_t>(side)] != what) return false;
  for (unsigned v = 0; v < world_.scenario.volumes.size(); ++v) {
    const auto status = world_.host(side).status(v);
    if (!status || status->state != replication::MirrorState::in_sync) return false;
    const Told named = named_by(status->epoch.arbiter);
    if (named != (what == Told::nobody ? Told::witness : what)) return false;
    if (what == Told::witness && status->failover_limited) return false;
  }
  return true;
}

/// Each node at another moment, as by two requests.
void ArbiterChanger::on_look(void* self, std::uint64_t side) {
  static_cast<ArbiterChanger*>(self)->look_at(static_cast<NodeSide>(side));
}

void ArbiterChanger::look_at(NodeSide side) {
  const bool good = carries_out(side, stage_ == Stage::stopping ? Told::nobody : target_);
  if (good && side == NodeSide::b) {
    if (stage_ == Stage::starting) {
      stage_ = Stage::idle;
      now_ = target_;
      world_.scheduler.after(random_.between(kMillisecond, 8 * kSecond), Owner::world, &ArbiterChanger::on_begin, this);
      return;
    }
    stage_ = Stage::starting;
    tell_both(target_);
  }
  const NodeSide next = good && side == NodeSide::a ? NodeSide::b : NodeSide::a;
  const Nanos delay = good ? random_.between(kMillisecond, 100 * kMillisecond) : 100 * kMillisecond;
  world_.scheduler.after(delay, Owner::world, &ArbiterChanger::on_look, this, static_cast<std::uint64_t>(next));
}

}  // namespace lockstep::simulation
