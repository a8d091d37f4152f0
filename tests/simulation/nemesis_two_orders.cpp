// Two operators at once, or one who does not wait: each of their orders ends, whatever became of the other one's.
#include "tests/simulation/nemesis.hpp"
#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::NodeSide;

namespace {
constexpr Nanos kLongestLeave = 14 * kSecond;
}  // namespace

void Nemesis::two_orders(Host& host) {
  const std::uint64_t volume = random_.below(world_.scenario.volumes.size());
  give_order(host, static_cast<unsigned>(volume));
  const Nanos later = random_.chance(300'000) ? 0 : random_.below(2 * world_.scenario.lease);
  world_.scheduler.after(later, Owner::world, &Nemesis::on_second_order, this, volume << 1 | number(either().side()));
}

/// Now and then just as the power fails.
void Nemesis::on_second_order(void* self, std::uint64_t volume_and_side) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  if (nemesis.over_ || nemesis.careful()) return;
  nemesis.give_order(nemesis.world_.host(side_of(volume_and_side & 1)), static_cast<unsigned>(volume_and_side >> 1));
  if (nemesis.world_.scenario.faults.power_cut_both && nemesis.random_.chance(200'000)) {
    nemesis.commit(Fault::power_cut_both);
  }
}

/// A node that left stays so until everything is mended.
void Nemesis::give_order(Host& host, unsigned volume) {
  const std::uint64_t what = random_.below(5);
  if (!usable(host) || !host.status(volume)) return;
  if (what < 2) {
    world_.trace.add(host.name(), "operator.leave", {{"volume", volume}});
    ordered_until_ = world_.scheduler.now() + kLongestLeave;
    return host.program()->leave(volume, answer_of(host));
  }
  if (what == 2) {
    world_.trace.add(host.name(), "operator.give_up", {{"volume", volume}});
    return host.program()->give_up(volume, answer_of(host));
  }
  if (!volume_to_detach(host)) return;
  detached_in_[number(host.side())] = host.life();
  if (what == 3 && host.is_only_a_target(volume)) {
    host.replace_copy(volume);
  } else {
    world_.trace.add(host.name(), "operator.detach", {{"volume", volume}});
    host.program()->attach_again(volume);
  }
  world_.caches->detached(host, volume);
}

Program::Said Nemesis::answer_of(const Host& host) {
  const std::uint64_t order = ++last_order_;
  orders_.emplace(order, Order{host.side(), host.life()});
  return [this, order](engine::Result<void>) { orders_.erase(order); };
}

/// Or with the process that was told.
bool Nemesis::orders_ended() const {
  for (const auto& [number, order] : orders_) {
    const Host& host = world_.host(order.side);
    if (host.running() && host.life() == order.life) return false;
  }
  return true;
}

}  // namespace lockstep::simulation
