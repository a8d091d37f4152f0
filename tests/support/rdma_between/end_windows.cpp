// Windows on our memory: the peer's packets are judged by this table, on this side, when they are carried out.
#include "tests/support/rdma_between/end.hpp"

namespace lockstep::test::between {

bool End::is_registered(std::span<const std::byte> memory) const {
  return (phase_ == Phase::up || phase_ == Phase::lost) && host_.process.arenas.has(memory);
}

rdma::Remote End::expose(std::span<std::byte> memory, rdma::Access access) {
  const rdma::Remote none{.address = reinterpret_cast<std::uintptr_t>(memory.data()), .key = 0};
  if (!may_post(rdma::Work::hide)) return none;
  if (domain_ != rdma::Domain::link) return misused("a window was opened in the initiators' domain"), none;
  if (exposed_ >= most_windows_) return misused("more windows were opened than were granted"), none;
  if (memory.empty() || !is_registered(memory)) return misused("a window was opened on memory in no arena"), none;
  const rdma::Remote opened{.address = none.address, .key = host_.process.new_key()};
  windows_.emplace(opened.key, Window{memory, access});
  ++exposed_;
  post({.work = rdma::Work::hide, .remote = opened});  // it counts, and is over with those before it
  return opened;
}

void End::hide(std::uint32_t key, std::uint64_t id) {
  if (!may_post(rdma::Work::hide)) return;
  if (id == 0) return misused("nobody will be told when a window is shut");
  post({.work = rdma::Work::hide, .id = id, .remote = {.address = 0, .key = key}});
}

/// The next of what is posted opens a window, which was done at once, or shuts one.
bool End::shut(Request& request) {
  if (request.id != 0 && windows_.erase(request.remote.key) == 0) {
    const auto id = request.id;
    fault("a key was hidden that the peer had invalidated, or that is none");
    requests_.pop_front();
    tell({.work = rdma::Work::hide, .id = id, .error = rdma::RdmaErrc::local_operation});
    lose(rdma::RdmaErrc::local_operation);
    return false;
  }
  if (request.id != 0) hidden_.insert(request.remote.key);
  request.sequence = last_sent_;
  awaiting_.push_back(std::move(request));
  requests_.pop_front();
  if (last_done_ == last_sent_) host_.reactor.post([this] { settle(); });
  return true;
}

/// Empty: the key, the range or the right is wrong.
std::span<std::byte> End::window_of(const rdma::Remote& remote, std::size_t bytes, rdma::Access access) const {
  const auto found = windows_.find(remote.key);
  if (found == windows_.end() || found->second.access != access) return {};
  const auto memory = found->second.memory;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  if (remote.address < begin || remote.address - begin > memory.size()) return {};
  const std::size_t offset = remote.address - begin;
  return bytes <= memory.size() - offset ? memory.subspan(offset, bytes) : std::span<std::byte>{};
}

}  // namespace lockstep::test::between
