#include "tests/support/rdma/fake_fabric.hpp"

#include <algorithm>

#include "engine/runtime/reactor.hpp"
#include "tests/support/rdma/end.hpp"
#include "tests/support/rdma/network.hpp"

namespace lockstep::test {
namespace {

class FakeListener final : public rdma::Listener {
 public:
  FakeListener(std::shared_ptr<fabric::Network> network, std::shared_ptr<fabric::ListenerState> state)
      : network_(std::move(network)), state_(std::move(state)) {}
  ~FakeListener() override { std::erase(network_->listeners, state_); }
  [[nodiscard]] const std::string& address() const override { return state_->address; }

 private:
  std::shared_ptr<fabric::Network> network_;
  std::shared_ptr<fabric::ListenerState> state_;
};

}  // namespace

FakeFabric::FakeFabric(engine::Clock& clock, engine::Random& random, FakeDelays delays)
    : network_(std::make_shared<fabric::Network>(clock, random, delays)), machine_(network_->add_machine()) {}

FakeFabric::FakeFabric(FakeFabric& neighbour) : network_(neighbour.network_), machine_(network_->add_machine()) {}

FakeFabric::~FakeFabric() = default;

void FakeFabric::add_arena(std::span<std::byte> arena) {
  machine_.arenas.push_back(arena);
  registrations_.made(arena.size());
}

void FakeFabric::remove_arena(std::span<std::byte> arena) {
  const auto found = std::ranges::find_if(
      machine_.arenas, [&](auto each) { return each.data() == arena.data() && each.size() == arena.size(); });
  if (found == machine_.arenas.end()) return network_->fault("an arena was removed that was not added");
  machine_.arenas.erase(found);
  registrations_.gone(arena.size());
  for (fabric::End* const end : network_->open_ends()) {
    if (&end->machine == &machine_) end->look_for_use_of(arena);
  }
}

std::unique_ptr<rdma::Completions> FakeFabric::attach(engine::Reactor& reactor) {
  return attach(static_cast<engine::Clock&>(reactor));
}

std::unique_ptr<rdma::Completions> FakeFabric::attach(engine::Clock& clock) {
  return std::make_unique<fabric::Host>(network_, machine_, clock);
}

engine::Result<std::unique_ptr<rdma::Listener>> FakeFabric::listen(
    rdma::Completions& home, std::string_view address, engine::Callback<std::unique_ptr<rdma::Call>> called) {
  const std::string where(address);
  if (machine_.fails_now() || machine_.is_removed) {
    return engine::fail(engine::Errc::io_error, "no RDMA device listens on " + where + ": look at the device");
  }
  auto state = std::make_shared<fabric::ListenerState>();
  state->address = network_->pick_port(address);
  if (network_->listener(state->address) != nullptr) {
    return engine::fail(engine::Errc::refused, where + " is in use by another listener: choose another port");
  }
  state->home = &dynamic_cast<fabric::Host&>(home);
  state->called = std::move(called);
  network_->listeners.push_back(state);
  return std::make_unique<FakeListener>(network_, std::move(state));
}

std::unique_ptr<rdma::QueuePair> FakeFabric::connect(rdma::Completions& completions, rdma::Domain domain,
                                                     std::string_view from, std::string_view to,
                                                     const rdma::Wanted& wanted,
                                                     std::span<const std::byte> private_data,
                                                     rdma::QueuePairUser& user) {
  auto& host = dynamic_cast<fabric::Host&>(completions);
  return fabric::handle_of(network_, network_->call(host, domain, from, to, wanted, private_data, user));
}

const std::vector<std::string>& FakeFabric::faults() const { return network_->faults; }

std::vector<std::string> FakeFabric::take_faults() { return std::exchange(network_->faults, {}); }

const FakeCounts& FakeFabric::counts() const { return network_->counts; }

std::vector<std::uint32_t> FakeFabric::connections() const {
  std::vector<std::uint32_t> ids;
  for (const fabric::End* const end : network_->open_ends()) ids.push_back(end->connection().id);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

void FakeFabric::look() {
  for (fabric::End* const end : network_->open_ends()) end->look();
}

rdma::Remote FakeFabric::grant(rdma::Domain domain, std::span<std::byte> memory, bool readable, bool writable) {
  const std::uint32_t key = network_->make_key();
  machine_.grants[key] = {.domain = domain, .memory = memory, .readable = readable, .writable = writable};
  return {.address = reinterpret_cast<std::uintptr_t>(memory.data()), .key = key};
}

void FakeFabric::revoke(std::uint32_t key) { machine_.grants.erase(key); }

bool FakeFabric::is_granted(std::uint32_t key) const { return machine_.grants.contains(key); }

FakeDevice& FakeFabric::device() { return machine_.device; }

void FakeFabric::lose(std::uint32_t connection, std::error_code why) {
  fabric::Connection* const found = network_->find(connection);
  if (found == nullptr) return;
  for (fabric::End* const end : {found->caller.get(), found->answerer.get()}) {
    if (end != nullptr) network_->after(network_->delays.calls, [end, why] { end->lose(why); });
  }
}

void FakeFabric::lose_packets(bool lost) {
  machine_.is_silent = lost;
  if (!lost) network_->resume();
}

void FakeFabric::lose_packets(std::uint32_t connection, bool lost) {
  fabric::Connection* const found = network_->find(connection);
  if (found == nullptr) return;
  found->is_silent = lost;
  if (!lost) network_->resume();
}

void FakeFabric::remove_device() {
  machine_.is_removed = true;
  for (fabric::End* const end : network_->open_ends()) {
    if (&end->machine == &machine_) end->device_removed();
  }
}

void FakeFabric::restore_device() { machine_.is_removed = false; }

void FakeFabric::fail_call(std::uint64_t number) { machine_.fails_in = number; }

void FakeFabric::watch(std::function<void(std::span<const std::byte>)> watcher) {
  network_->watcher = std::move(watcher);
}
void FakeFabric::damage_next(rdma::Work work, std::size_t least, unsigned passed) {
  network_->damages.push_back({work, least, passed});
}
std::size_t FakeFabric::damages() const { return network_->damages.size(); }
void FakeFabric::fail_next(rdma::Work work, std::error_code why) { machine_.failing.emplace_back(work, why); }

void FakeFabric::abandon(rdma::Completions& completions) {
  network_->abandon(dynamic_cast<fabric::Host&>(completions));
}

}  // namespace lockstep::test
