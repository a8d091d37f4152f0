#include "tests/support/rdma_between/host.hpp"

#include <algorithm>

namespace lockstep::test::between {

constexpr auto kLookEvery = std::chrono::milliseconds(5);

void Arenas::add(std::span<std::byte> arena) {
  const std::lock_guard lock(mutex_);
  arenas_.push_back(arena);
}

void Arenas::remove(std::span<std::byte> arena) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      arenas_, [&](auto each) { return each.data() == arena.data() && each.size() == arena.size(); });
  if (found != arenas_.end()) arenas_.erase(found);
}

bool Arenas::has(std::span<const std::byte> memory) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(arenas_, [&](auto arena) {
    return memory.data() >= arena.data() && memory.data() + memory.size() <= arena.data() + arena.size();
  });
}

void Process::fault(std::string_view sentence) {
  folder.note_fault(sentence);
  const std::lock_guard lock(mutex_);
  faults_.emplace_back(sentence);
}

std::vector<std::string> Process::faults() const {
  const std::lock_guard lock(mutex_);
  return faults_;
}

CableWatch::CableWatch(const Folder& folder, engine::Reactor& reactor)
    : folder_(folder), reactor_(reactor), now_(folder.cable()) {
  look_later();
}

CableWatch::~CableWatch() { reactor_.cancel(timer_); }

void CableWatch::look_later() {
  timer_ = reactor_.call_after(kLookEvery, [this] {
    look_later();
    look();
  });
}

void CableWatch::look() {
  const Cable before = std::exchange(now_, folder_.cable());
  if (before == now_) return;
  const auto told = plugged_;
  for (Plugged* const each : told) {
    // One that is told may unplug another.
    if (std::ranges::find(plugged_, each) != plugged_.end()) each->cable_changed(now_);
  }
}

}  // namespace lockstep::test::between
