#include "engine/runtime/timer_queue.hpp"

#include <utility>

namespace lockstep::engine {

TimerId TimerQueue::add(TimePoint deadline, Callback<> action) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.deadline = deadline;
  slot.order = next_order_++;
  slot.action = std::move(action);
  heap_.push_back(index);
  slot.position = static_cast<std::uint32_t>(heap_.size() - 1);
  sift_up(heap_.size() - 1);
  return TimerId{std::uint64_t{slot.generation} << 32 | index};
}

void TimerQueue::cancel(TimerId timer) {
  const auto index = static_cast<std::uint32_t>(std::uint64_t(timer));
  const auto generation = static_cast<std::uint32_t>(std::uint64_t(timer) >> 32);
  if (index >= slots_.size() || slots_[index].generation != generation) return;
  if (slots_[index].position == kNotInHeap) return;
  const Callback<> dropped = take(index);  // destroyed last: what it holds may come back to this queue
}

void TimerQueue::drop_all() {
  while (!heap_.empty()) const Callback<> dropped = take(heap_.front());
}

std::optional<TimePoint> TimerQueue::earliest() const {
  if (heap_.empty()) return std::nullopt;
  return slots_[heap_.front()].deadline;
}

void TimerQueue::run_due(TimePoint now) {
  const std::uint64_t end = next_order_;
  while (!heap_.empty()) {
    const Slot& first = slots_[heap_.front()];
    if (first.deadline > now || first.order >= end) return;
    Callback<> action = take(heap_.front());
    action();
  }
}

/// Takes a timer out; its id is of no use from then on.
Callback<> TimerQueue::take(std::uint32_t index) {
  const std::size_t position = slots_[index].position;
  const std::uint32_t last = heap_.back();
  heap_.pop_back();
  if (last != index) {
    place(last, position);
    sift_up(position);
    sift_down(slots_[last].position);
  }
  Slot& slot = slots_[index];
  slot.position = kNotInHeap;
  if (++slot.generation == 0) slot.generation = 1;  // 0 would make TimerId::none of slot 0
  free_.push_back(index);
  return std::exchange(slot.action, nullptr);
}

bool TimerQueue::before(std::uint32_t a, std::uint32_t b) const {
  const Slot &x = slots_[a], &y = slots_[b];
  return x.deadline != y.deadline ? x.deadline < y.deadline : x.order < y.order;
}

void TimerQueue::place(std::uint32_t slot, std::size_t position) {
  heap_[position] = slot;
  slots_[slot].position = static_cast<std::uint32_t>(position);
}

void TimerQueue::sift_up(std::size_t position) {
  const std::uint32_t slot = heap_[position];
  while (position > 0) {
    const std::size_t parent = (position - 1) / 2;
    if (!before(slot, heap_[parent])) break;
    place(heap_[parent], position);
    position = parent;
  }
  place(slot, position);
}

void TimerQueue::sift_down(std::size_t position) {
  const std::uint32_t slot = heap_[position];
  for (;;) {
    std::size_t child = 2 * position + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], slot)) break;
    place(heap_[child], position);
    position = child;
  }
  place(slot, position);
}

}  // namespace lockstep::engine
