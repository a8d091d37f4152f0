#include "tests/simulation/sim_rdma.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep::simulation {

using rdma::Access;
using rdma::Remote;

namespace {

constexpr std::uint32_t kUnregistered = 30'000;  // chance in a million that memory lies in no arena

std::uint64_t address_of(std::span<const std::byte> memory) { return reinterpret_cast<std::uint64_t>(memory.data()); }

}  // namespace

SimRdma::SimRdma(Scheduler& scheduler, Verdict& verdict, SimRandom random, Owner owner, replication::PayloadSizes sizes)
    : scheduler_(scheduler), verdict_(verdict), random_(random), owner_(owner), sizes_(sizes) {}

void SimRdma::connect(replication::RdmaPayloads::User& user) {
  exists_ = true;
  ++pair_;
  payloads_.emplace(*this, user, sizes_);
  payloads_->begin();
}

void SimRdma::destroy() {
  for (const Window& window : windows_) look_at(window);
  for (const Posted& send : posted_) {
    if (hash_bytes(send.memory) != send.hash) {
      verdict_.fail("memory that an RDMA send was posted from was changed before its queue pair was destroyed");
    }
  }
  process_died();
}

void SimRdma::process_died() {
  exists_ = false;
  windows_.clear();
  posted_.clear();
  hiding_.clear();
  mover_ = nullptr;
  payloads_.reset();
}

// --- The sender's ---------------------------------------------------------------------------------------------------

bool SimRdma::is_registered(std::span<const std::byte>) const {
  return may_be_registered_ && !random_.chance(kUnregistered);
}

/// Of all worlds of a thread: they borrow little, and give it back.
engine::Buffer SimRdma::make_copy(std::size_t bytes, bool) {
  thread_local engine::BufferPool copies(engine::BufferPool::kMaxBuffer);
  return copies.allocate(bytes);
}

std::uint64_t SimRdma::post(std::span<const std::byte> memory, std::uint64_t owner) {
  posted_.push_back({++last_send_, owner, memory, hash_bytes(memory)});
  return last_send_;
}

std::optional<std::uint64_t> SimRdma::complete(std::uint64_t send) {
  const auto posted = std::ranges::find(posted_, send, &Posted::number);
  if (posted == posted_.end()) return std::nullopt;
  if (hash_bytes(posted->memory) != posted->hash) {
    verdict_.fail("memory that an RDMA send was posted from was changed before it was complete");
  }
  const std::uint64_t owner = posted->owner;
  posted_.erase(posted);
  return owner;
}

Remote SimRdma::expose(std::span<std::byte> memory, Access access) {
  windows_.push_back({++last_key_, memory, access, hash_bytes(memory)});
  return {address_of(memory), last_key_};
}

void SimRdma::hide(std::uint32_t key, void* owner) {
  if (window_of(key) == nullptr) verdict_.fail("a node shut a window on its memory that was not open");
  hiding_.push_back({key, owner});
  scheduler_.after(random_.skewed(kMicrosecond, 200 * kMicrosecond), owner_, &SimRdma::on_hidden, this, pair_);
}

/// Completions come in the order of their posts, also where the owner stood still.
void SimRdma::on_hidden(void* self, std::uint64_t pair) {
  auto& end = *static_cast<SimRdma*>(self);
  if (!end.exists_ || pair != end.pair_) return;
  const Hiding hiding = end.hiding_.front();
  end.hiding_.pop_front();
  end.shut(hiding.key);
  end.mover_->on_hidden(hiding.owner);
}

// --- The peer's device ----------------------------------------------------------------------------------------------

SimRdma::Window* SimRdma::window_of(std::uint32_t key) {
  const auto found = std::ranges::find(windows_, key, &Window::key);
  return found == windows_.end() ? nullptr : &*found;
}

SimRdma::Window* SimRdma::allowed(const Remote& what, std::size_t offset, std::size_t bytes, Access access) {
  Window* const window = window_of(what.key);
  if (window == nullptr) {
    verdict_.fail("the partner's device used a key whose window is not open");
    return nullptr;
  }
  const std::uint64_t first = what.address + offset - address_of(window->memory);
  if (first > window->memory.size() || bytes > window->memory.size() - first) {
    verdict_.fail("the partner's device went beyond the bounds of a window");
    return nullptr;
  }
  if (window->access != access) {
    verdict_.fail("the partner's device did what a window is not open for");
    return nullptr;
  }
  look_at(*window);
  return window;
}

SimRdma::Outcome SimRdma::read(const Remote& from, std::size_t offset, std::span<std::byte> into) {
  if (!exists_) return Outcome::gone;
  const Window* const window = allowed(from, offset, into.size(), Access::read);
  if (window == nullptr) return Outcome::refused;
  const std::size_t first = from.address + offset - address_of(window->memory);
  std::ranges::copy(window->memory.subspan(first, into.size()), into.begin());
  return Outcome::moved;
}

SimRdma::Outcome SimRdma::write(const Remote& to, std::size_t offset, std::span<const std::byte> from) {
  if (!exists_) return Outcome::gone;
  Window* const window = allowed(to, offset, from.size(), Access::write);
  if (window == nullptr) return Outcome::refused;
  const std::size_t first = to.address + offset - address_of(window->memory);
  std::ranges::copy(from, window->memory.subspan(first).begin());
  window->hash = hash_bytes(window->memory);
  return Outcome::moved;
}

void SimRdma::invalidate(std::uint32_t key) {
  if (!exists_) return;
  if (!shut(key)) return verdict_.fail("the partner shut a window that was not open");
  mover_->on_invalidated(key);
}

bool SimRdma::shut(std::uint32_t key) {
  const Window* const window = window_of(key);
  if (window == nullptr) return false;
  look_at(*window);
  windows_.erase(windows_.begin() + (window - windows_.data()));
  return true;
}

/// Until it is shut nobody but the peer may write to its memory.
void SimRdma::look_at(const Window& window) {
  if (hash_bytes(window.memory) == window.hash) return;
  verdict_.fail(window.access == Access::read
                    ? "memory that the partner's device may read was changed before its window was shut"
                    : "memory that the partner's device may write was changed before its window was shut");
}

}  // namespace lockstep::simulation
