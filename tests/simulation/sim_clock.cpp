#include "tests/simulation/sim_clock.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::simulation {

engine::TimePoint SimClock::now() const {
  if (machine_) return machine_->now();
  const auto local = static_cast<unsigned __int128>(unpaused() - began_) * rate_ / 1'000'000u;
  return {engine::Duration(static_cast<std::int64_t>(local) + static_cast<std::int64_t>(offset_))};
}

engine::TimerId SimClock::call_after(engine::Duration delay, engine::Callback<> action) {
  std::uint32_t slot;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(timers_.size());
    timers_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Timer& timer = timers_[slot];
  timer.action = std::move(action);
  timer.armed = true;
  const auto id = (static_cast<std::uint64_t>(timer.generation) << 32) | slot;
  const auto local = static_cast<Nanos>(std::max<std::int64_t>(delay.count(), 0));
  const auto global = static_cast<Nanos>(static_cast<unsigned __int128>(local) * 1'000'000u / rate_) + 1;
  const Nanos late = random_.chance(20'000) ? random_.below(20 * kMillisecond) : random_.below(200 * kMicrosecond);
  const Nanos wait = global + (local == 0 ? random_.below(2 * kMicrosecond) : late);
  timer.due = unpaused() + wait;
  scheduler_.after(wait, owner_, &SimClock::fire, this, id);
  return engine::TimerId{id};
}

void SimClock::fire(void* self, std::uint64_t id) {
  auto& clock = *static_cast<SimClock*>(self);
  const auto slot = static_cast<std::uint32_t>(id);
  Timer& timer = clock.timers_[slot];
  if (!timer.armed || timer.generation != id >> 32) return;
  if (const Nanos now = clock.unpaused(); now < timer.due) {
    return clock.scheduler_.after(timer.due - now, clock.owner_, &SimClock::fire, self, id);
  }
  engine::Callback<> action = std::move(timer.action);
  clock.release(slot);
  action();
}

void SimClock::reboot() {
  began_ = unpaused();
  offset_ = kMicrosecond + random_.below(10 * kMillisecond);
  ++boot_;
}

void SimClock::set_back(engine::TimePoint then) {
  began_ = unpaused();
  offset_ = static_cast<Nanos>(then.since_origin.count());
}

void SimClock::resume() {
  paused_ += scheduler_.now() - paused_at_;
  is_paused_ = false;
}

void SimClock::cancel(engine::TimerId timer) {
  const auto id = static_cast<std::uint64_t>(timer);
  const auto slot = static_cast<std::uint32_t>(id);
  if (timer == engine::TimerId::none || slot >= timers_.size()) return;
  if (!timers_[slot].armed || timers_[slot].generation != id >> 32) return;
  const engine::Callback<> dropped = std::move(timers_[slot].action);
  release(slot);
}

void SimClock::release(std::uint32_t slot) {
  timers_[slot].armed = false;
  timers_[slot].action = nullptr;
  ++timers_[slot].generation;
  free_.push_back(slot);
}

void SimClock::clear() {
  for (std::uint32_t slot = 0; slot < timers_.size(); ++slot) {
    if (!timers_[slot].armed) continue;
    const engine::Callback<> dropped = std::move(timers_[slot].action);
    release(slot);
  }
}

}  // namespace lockstep::simulation
