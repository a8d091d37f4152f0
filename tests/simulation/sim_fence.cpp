#include "tests/simulation/sim_fence.hpp"

#include <utility>

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

SimFence::SimFence(World& world, engine::NodeSide side, Owner owner)
    : world_(world),
      side_(side),
      owner_(owner),
      random_(world.scenario.seed ^ 0x66656e6365u ^ static_cast<std::uint64_t>(side)) {}

void SimFence::power_off(engine::TimePoint, engine::Callback<const replication::FenceEnd&> done) {
  world_.trace.add(letter(owner_), "fence.begins");
  const std::uint64_t number = calls_.size();
  Call& call = *calls_.emplace_back(std::make_unique<Call>());
  call.done = std::move(done);
  if (holds_) return;
  const Nanos lease = world_.scenario.lease;
  call.fails = random_.chance(350'000);
  call.cuts = !call.fails || random_.chance(300'000);
  const Nanos cut = random_.skewed(kMillisecond, 3 * lease);
  // A failure may come before the power goes: the command ran into its limit.
  const Nanos answer = call.fails ? random_.skewed(kMillisecond, 5 * lease) : cut + random_.skewed(0, 2 * lease);
  if (call.cuts) world_.scheduler.after(cut, Owner::world, &SimFence::on_cut, this, number);
  world_.scheduler.after(answer, owner_, &SimFence::on_answer, this, number);
}

void SimFence::on_cut(void* self, std::uint64_t number) {
  auto& fence = *static_cast<SimFence*>(self);
  const Call& call = *fence.calls_[number];
  // When everything is mended, what nobody waits for any more takes no power.
  const bool late = !call.done && fence.world_.scheduler.now() > fence.world_.scenario.duration;
  if (!call.cuts || late) return;
  fence.world_.nemesis->powered_off(fence.world_.host(engine::other(fence.side_)));
}

void SimFence::on_answer(void* self, std::uint64_t number) {
  auto& fence = *static_cast<SimFence*>(self);
  Call& call = *fence.calls_[number];
  if (!call.done) return;
  fence.world_.trace.add(letter(fence.owner_), "fence.ended", {{"failed", call.fails}});
  std::exchange(call.done, nullptr)({.problem = call.fails ? "It was drawn to fail." : ""});
}

void SimFence::answer(const std::string& problem) { std::exchange(calls_.back()->done, nullptr)({.problem = problem}); }

/// Whether what was sent to the machine's power arrives is chance.
void SimFence::give_up() {
  for (const auto& call : calls_) {
    if (!call->done) continue;
    const auto dropped = std::move(call->done);
    call->done = nullptr;
    if (random_.chance(500'000)) call->cuts = false;
  }
}

void SimFence::stop() {
  ++stopped_;
  world_.trace.add(letter(owner_), "fence.stopped");
  give_up();
}

void SimFence::clear() { give_up(); }

}  // namespace lockstep::simulation
