#include "tests/simulation/sim_fence.hpp"

#include <utility>

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

namespace {

void on_start(void* host, std::uint64_t) {
  auto& machine = *static_cast<Host*>(host);
  if (!machine.running()) machine.boot();
}

void set_wires(World& world, bool open) {
  for (const engine::NodeSide side : {engine::NodeSide::a, engine::NodeSide::b}) world.cut(side, open);
}

void on_lose_one_another(void* self, std::uint64_t) {
  auto& world = *static_cast<World*>(self);
  if (world.scheduler.now() >= world.scenario.duration) return;
  set_wires(world, false);
  const auto mend = [](void* mended, std::uint64_t) { set_wires(*static_cast<World*>(mended), true); };
  world.scheduler.after(8 * world.scenario.lease, Owner::world, mend, &world);
}

}  // namespace

SimFence::SimFence(World& world, engine::NodeSide side, Owner owner, const engine::Clock& clock)
    : world_(world),
      side_(side),
      owner_(owner),
      clock_(clock),
      random_(world.scenario.seed ^ 0x66656e6365u ^ static_cast<std::uint64_t>(side)) {}

void SimFence::power_off(engine::TimePoint, engine::Callback<const replication::FenceEnd&> done) {
  world_.trace.add(letter(owner_), "fence.begins");
  const std::uint64_t number = calls_.size();
  Call& call = *calls_.emplace_back(std::make_unique<Call>());
  call.began = clock_.now();
  call.done = std::move(done);
  if (holds_) return;
  const Nanos lease = world_.scenario.lease;
  call.fails = random_.chance(350'000);
  call.cuts = !call.fails || random_.chance(300'000);
  const Nanos cut = random_.skewed(kMillisecond, 3 * lease);
  // A failure may come before the power goes: the command ran into its limit.
  Nanos answer = call.fails ? random_.skewed(kMillisecond, 5 * lease) : cut + random_.skewed(0, 2 * lease);
  // Another shard may have met the partner's next process meanwhile, and lost it again.
  if (world_.scenario.shards > 1 && random_.chance(500'000)) answer += random_.between(lease, 10 * kSecond);
  if (call.cuts) world_.scheduler.after(cut, Owner::world, &SimFence::on_cut, this, number);
  world_.scheduler.after(answer, owner_, &SimFence::on_answer, this, number);
}

void SimFence::on_cut(void* self, std::uint64_t number) {
  auto& fence = *static_cast<SimFence*>(self);
  const Call& call = *fence.calls_[number];
  // When everything is mended, what nobody waits for any more takes no power.
  const bool late = !call.done && fence.world_.scheduler.now() > fence.world_.scenario.duration;
  if (!call.cuts || late) return;
  World& world = fence.world_;
  Host& partner = world.host(engine::other(fence.side_));
  world.nemesis->powered_off(partner);
  if (world.scenario.shards == 1 || !fence.random_.chance(500'000)) return;
  // Whoever has another shard's link meets its next process, and loses it again, while one command runs.
  const Nanos soon = fence.random_.below(20 * kMillisecond);
  world.scheduler.after(soon, Owner::world, &on_start, &partner);
  const Nanos later = fence.random_.between(kSecond / 2, 3 * kSecond);
  world.scheduler.after(later, Owner::world, &on_lose_one_another, &world);
}

void SimFence::on_answer(void* self, std::uint64_t number) {
  auto& fence = *static_cast<SimFence*>(self);
  Call& call = *fence.calls_[number];
  if (!call.done) return;
  fence.world_.trace.add(letter(fence.owner_), "fence.ended", {{"failed", call.fails}});
  std::exchange(call.done, nullptr)({.problem = call.fails ? "It was drawn to fail." : "", .began = call.began});
}

void SimFence::answer(const std::string& problem) {
  Call& call = *calls_.back();
  std::exchange(call.done, nullptr)({.problem = problem, .began = call.began});
}

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
