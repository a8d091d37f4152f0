// Windows through which the peer reads and writes this side's memory. They are opened and shut in the order of the
// posts, without the peer: nothing of it is needed, and it is not asked.
#include <algorithm>
#include <array>

#include "tests/support/rdma/end.hpp"

namespace lockstep::test::fabric {

std::error_code End::why_refused() {
  if (machine.fails_now()) return std::make_error_code(std::errc::not_enough_memory);
  if (windows != 0 && domain != rdma::Domain::link) fault("windows are of the link's domain only");
  return windows > machine.device.windows ? std::make_error_code(FakeStatus::no_windows) : std::error_code();
}

bool End::is_registered(std::span<const std::byte> memory) const {
  return established_told_ && !is_closing_ && machine.has(memory);
}

rdma::Remote End::expose(std::span<std::byte> memory, rdma::Access access) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uint32_t key = network_.make_key();
  if (lost_told_ && !is_closing_) return {.address = address, .key = key};
  auto posted = std::make_unique<Posted>();
  posted->work = rdma::Work::hide;
  posted->key = key;
  posted->window = memory;
  posted->access = access;
  if (!may_post(*posted)) return {};
  if (memory.empty()) {
    fault("nothing is exposed", posted.get());
    return {};
  }
  if (windows_.size() >= windows) {
    fault("it is one window more than was wanted", posted.get());
    return {};
  }
  const std::array<std::span<const std::byte>, 1> pieces = {memory};
  (void)is_in_arenas(*posted, pieces);
  windows_[key] = {.memory = memory};
  ++network_.counts.windows;
  network_.counts.most_windows = std::max(network_.counts.most_windows, static_cast<std::uint32_t>(windows_.size()));
  post(std::move(posted));
  return {.address = address, .key = key};
}

void End::hide(std::uint32_t key, std::uint64_t id) {
  if (lost_told_ && !is_closing_) return;
  auto posted = std::make_unique<Posted>();
  posted->work = rdma::Work::hide;
  posted->id = id;
  posted->key = key;
  if (!may_post(*posted)) return;
  if (id == 0) return fault("nobody will be told when the window is shut", posted.get());
  const auto window = windows_.find(key);
  if (window == windows_.end()) return fault("its key is of no window that is open", posted.get());
  if (std::exchange(window->second.is_hiding, true)) return fault("its window is being shut already", posted.get());
  post(std::move(posted));
}

void End::move_window(Posted& posted) {
  if (posted.fails) return fail(posted, posted.fails);
  if (posted.opens()) {
    const bool readable = posted.access == rdma::Access::read;
    machine.grants[posted.key] = {
        .domain = domain, .memory = posted.window, .readable = readable, .writable = !readable, .window_of = this};
  } else if (const auto grant = machine.grants.find(posted.key); grant == machine.grants.end()) {
    fault("the peer has invalidated its key", &posted);
    return fail(posted, std::make_error_code(FakeStatus::not_open));
  } else {
    const auto memory = grant->second.memory;
    if (grant->second.writable && network_.takes_damage(rdma::Work::hide, memory.size())) memory.back() ^= std::byte{1};
    machine.grants.erase(grant);
    hidden_.insert(posted.key);
  }
  posted.is_done = true;
  if (posted.id != 0) hurry(&posted);
  start_telling();
}

void End::window_is_free(std::uint32_t key) {
  network_.counts.windows -= static_cast<std::uint32_t>(windows_.erase(key));
}

void End::shut_windows() {
  std::erase_if(machine.grants, [&](const auto& grant) { return grant.second.window_of == this; });
  network_.counts.windows -= static_cast<std::uint32_t>(windows_.size());
  windows_.clear();
}

/// What the peer sent before it heard of the end may come until the window is shut.
void End::spoil_windows() {
  for (auto& [key, grant] : machine.grants) {
    if (grant.window_of == this && grant.writable) scribble(grant.memory, network_.dice);
  }
}

void End::look_for_use_of(std::span<const std::byte> arena) {
  for (const auto* const queue : {&sends_, &receives_}) {
    for (const auto& posted : *queue) {
      if (posted->source.lies_in(arena) || posted->target.lies_in(arena)) fault("its arena was removed", posted.get());
    }
  }
  for (const auto& [key, window] : windows_) {
    if (overlap(window.memory, arena)) fault("an arena was removed in which a window is open");
  }
}

}  // namespace lockstep::test::fabric
