#include "tests/simulation/scheduler.hpp"

#include <algorithm>

namespace lockstep::simulation {

void Scheduler::at(Nanos when, Owner owner, Action action, void* context, std::uint64_t argument) {
  push({std::max(when, now_), ++order_, action, context, argument, life_[index(owner)], owner});
}

void Scheduler::push(const Event& event) {
  heap_.push_back(event);
  std::push_heap(heap_.begin(), heap_.end(), later);
}

bool Scheduler::step() {
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = heap_.back();
    heap_.pop_back();
    if (event.life != life_[index(event.owner)]) continue;
    now_ = event.when;
    trace_.set_time(now_);
    if (frozen_[index(event.owner)]) {
      waiting_[index(event.owner)].push_back(event);
      continue;
    }
    if (Inbox* inbox = inboxes_[index(event.owner)]) inbox->before_event();
    if (event.life != life_[index(event.owner)]) return true;
    event.action(event.context, event.argument);
    return true;
  }
  return false;
}

void Scheduler::thaw(Owner owner) {
  frozen_[index(owner)] = false;
  const auto waiting = std::move(waiting_[index(owner)]);
  waiting_[index(owner)].clear();
  if (Inbox* inbox = inboxes_[index(owner)]) inbox->thawed(kCatchesUpWithin);
  for (Event event : waiting) {
    event.when = now_ + random_.below(kCatchesUpWithin);
    event.order = ++order_;
    push(event);
  }
}

void Scheduler::forget(Owner owner) {
  ++life_[index(owner)];
  waiting_[index(owner)].clear();
  frozen_[index(owner)] = false;
}

}  // namespace lockstep::simulation
